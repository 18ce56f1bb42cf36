// A plain C++ metadata server to compare with: gRPC's synchronous API, a hash map, message objects.
// It matches prefixes and takes writes of one instance, without storages, quotas or persistence.
// Usage: server PORT FIRST BLOCKS: the blocks of so many keys from FIRST on are there.

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "meta_service.grpc.pb.h"

namespace pb = kv_cache_manager::proto::meta;

class Service final : public pb::MetaService::Service {
 public:
  Service(int64_t first, int64_t blocks) {
    uris_.reserve(blocks);
    for (int64_t key = first; key < first + blocks; ++key) uris_[key] = Uri(key);
  }

  grpc::Status GetCacheLocation(grpc::ServerContext*, const pb::GetCacheLocationRequest* request,
                                pb::GetCacheLocationResponse* answer) override {
    Ok(answer->mutable_header(), request->trace_id());
    std::shared_lock lock(mutex_);
    for (int64_t key : request->block_keys()) {
      auto found = uris_.find(key);
      if (found == uris_.end()) break;
      Fill(answer->add_locations(), found->second);
    }
    return grpc::Status::OK;
  }

  grpc::Status StartWriteCache(grpc::ServerContext*, const pb::StartWriteCacheRequest* request,
                               pb::StartWriteCacheResponse* answer) override {
    Ok(answer->mutable_header(), request->trace_id());
    std::unique_lock lock(mutex_);
    std::string id = std::to_string(++sessions_);
    std::vector<int64_t>& keys = open_[id];
    for (int64_t key : request->block_keys()) {
      if (uris_.count(key)) continue;
      keys.push_back(key);
      Fill(answer->add_locations(), Uri(key));
    }
    answer->mutable_block_mask()->set_offset(request->block_keys_size() - static_cast<int>(keys.size()));
    answer->set_write_session_id(id);
    return grpc::Status::OK;
  }

  grpc::Status FinishWriteCache(grpc::ServerContext*, const pb::FinishWriteCacheRequest* request,
                                pb::CommonResponse* answer) override {
    Ok(answer->mutable_header(), request->trace_id());
    std::unique_lock lock(mutex_);
    auto session = open_.find(request->write_session_id());
    if (session == open_.end()) return grpc::Status(grpc::NOT_FOUND, "no such session");
    for (int64_t key : session->second) uris_[key] = Uri(key);
    open_.erase(session);
    return grpc::Status::OK;
  }

 private:
  static std::string Uri(int64_t key) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "file://nfs_01/tmp/kvcm-t-abcdefgh/nfs/model-a/tp0/%016llx_00c0ffee00c0ffee.abcdefgh?blkid=3&size=1024",
                  static_cast<unsigned long long>(key));
    return text;
  }

  static void Ok(pb::CommonResponseHeader* header, const std::string& trace) {
    header->mutable_status()->set_code(pb::OK);
    header->set_request_id(trace + "_1760000000000000");
  }

  static void Fill(pb::CacheLocation* location, const std::string& uri) {
    location->set_type(pb::ST_NFS);
    location->set_spec_size(1);
    pb::LocationSpec* spec = location->add_location_specs();
    spec->set_name("tp0");
    spec->set_uri(uri);
  }

  std::shared_mutex mutex_;
  std::unordered_map<int64_t, std::string> uris_;
  std::unordered_map<std::string, std::vector<int64_t>> open_;
  uint64_t sessions_ = 0;
};

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  Service service(std::atoll(argv[2]), std::atoll(argv[3]));
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::string(argv[1]), grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterService(&service);
  auto server = builder.BuildAndStart();
  if (!server) return 1;
  std::puts("serving");
  std::fflush(stdout);
  server->Wait();
}
