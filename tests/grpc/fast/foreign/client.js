// A grpc-js client of the metadata service: calls of many sizes, concurrency, deadlines, cancellation, keepalive.
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const assert = require("node:assert");
const fs = require("node:fs");

const [address, folder, authority] = process.argv.slice(2);
const security = authority
  ? grpc.credentials.createSsl(fs.readFileSync(authority))
  : grpc.credentials.createInsecure();
const definition = loader.loadSync("meta_service.proto", {
  includeDirs: [folder],
  keepCase: true,
  longs: String,
  enums: String,
});
const { MetaService } = grpc.loadPackageDefinition(definition).kv_cache_manager.proto.meta;
const client = new MetaService(address, security, {
  "grpc.keepalive_time_ms": 1000,
  "grpc.keepalive_timeout_ms": 1000,
  "grpc.keepalive_permit_without_calls": 1,
  "grpc.max_receive_message_length": -1,
});

const locate = (keys, options = {}) =>
  new Promise((resolve, reject) => {
    const request = {
      trace_id: "js",
      instance_id: "model-a",
      query_type: "QT_PREFIX_MATCH",
      block_keys: Array.from({ length: keys }, (_, key) => String(1000000 + key)),
    };
    const metadata = new grpc.Metadata();
    metadata.set("x-request-id", String(Math.random()));
    client.GetCacheLocation(request, metadata, options, (error, answer) => (error ? reject(error) : resolve(answer)));
  });

async function main() {
  for (const keys of [1, 64, 512, 4096]) {
    const answer = await locate(keys, { deadline: Date.now() + 10_000 });
    assert.equal(answer.header.status.code, "OK");
    assert.equal(answer.locations.length, keys);
  }
  const answers = await Promise.all(Array.from({ length: 500 }, () => locate(64)));
  assert.ok(answers.every((answer) => answer.locations.length === 64));
  await assert.rejects(locate(1, { deadline: Date.now() - 1000 }), { code: grpc.status.DEADLINE_EXCEEDED });
  await new Promise((resolve) => {
    const call = client.GetClusterInfo({}, (error) => {
      assert.equal(error.code, grpc.status.CANCELLED);
      resolve();
    });
    call.cancel();
  });
  await new Promise((resolve) => setTimeout(resolve, 5000));
  assert.equal(client.getChannel().getConnectivityState(false), grpc.connectivityState.READY);
  assert.equal((await locate(1)).locations.length, 1);
  console.log("all is well");
  client.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
