// A C++ client of the metadata service: calls of many sizes, keepalive without calls, deadlines, concurrency.
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>
#include <vector>

#include "meta_service.grpc.pb.h"

namespace meta = kv_cache_manager::proto::meta;

static void check(bool is_true, const std::string& what) {
  if (!is_true) {
    std::cerr << "failed: " << what << std::endl;
    std::exit(1);
  }
}

static meta::GetCacheLocationRequest request_of(int keys) {
  meta::GetCacheLocationRequest request;
  request.set_trace_id("cpp");
  request.set_instance_id("model-a");
  request.set_query_type(meta::QT_PREFIX_MATCH);
  for (int key = 0; key < keys; ++key) request.add_block_keys(1000000 + key);
  return request;
}

int main(int count, char** arguments) {
  grpc::ChannelArguments options;
  options.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1000);
  // Between calls a channel without a completion queue looks at its socket every five seconds only.
  options.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000);
  options.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  options.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  auto security = grpc::InsecureChannelCredentials();
  if (count > 2) {
    std::ifstream file(arguments[2]);
    grpc::SslCredentialsOptions files;
    files.pem_root_certs.assign(std::istreambuf_iterator<char>(file), {});
    security = grpc::SslCredentials(files);
  }
  auto channel = grpc::CreateCustomChannel(arguments[1], security, options);
  auto stub = meta::MetaService::NewStub(channel);
  for (int keys : {1, 64, 512, 4096}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    context.AddMetadata("x-request-id", std::to_string(keys));
    meta::GetCacheLocationResponse answer;
    auto status = stub->GetCacheLocation(&context, request_of(keys), &answer);
    check(status.ok(), status.error_message());
    check(answer.header().status().code() == meta::OK, answer.header().status().message());
    check(answer.locations_size() == keys, "as many locations as keys");
  }
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&stub] {
      for (int call = 0; call < 200; ++call) {
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
        meta::GetCacheLocationResponse answer;
        check(stub->GetCacheLocation(&context, request_of(64), &answer).ok(), "a concurrent call");
        check(answer.locations_size() == 64, "64 locations");
      }
    });
  }
  for (auto& thread : threads) thread.join();
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
    meta::GetClusterInfoResponse answer;
    auto status = stub->GetClusterInfo(&context, meta::GetClusterInfoRequest(), &answer);
    check(status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED, "a deadline in the past");
  }
  {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    meta::GetCacheLocationResponse answer;
    check(stub->GetCacheLocation(&context, request_of(512), &answer).ok(), "a compressed request");
    check(answer.locations_size() == 512, "512 locations");
  }
  std::this_thread::sleep_for(std::chrono::seconds(20));
  check(channel->GetState(false) == GRPC_CHANNEL_READY, "pings without calls keep the channel");
  std::cout << "all is well" << std::endl;
}
