#include "src/transport/rdma/verbs.h"

#include <dlfcn.h>

#include <string>
#include <system_error>

namespace byteps::transport {
namespace {

// Finds functions in one library, and notes the first that is missing.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <typename Function>
  void Find(Function& function, const char* name, const char* version) {
    void* symbol = dlvsym(library_, name, version);
    if (symbol == nullptr && missing_.empty()) {
      missing_ = std::string(name) + " (" + version + ")";
    }
    function = reinterpret_cast<Function>(symbol);
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

void FindAll(Finder& finder, Verbs& verbs) {
  // The version of a symbol names the layout of its structs. Libraries since 2007 have this one.
  constexpr const char* kVersion = "IBVERBS_1.1";
  finder.Find(verbs.get_device_list, "ibv_get_device_list", kVersion);
  finder.Find(verbs.free_device_list, "ibv_free_device_list", kVersion);
  finder.Find(verbs.get_device_name, "ibv_get_device_name", kVersion);
  finder.Find(verbs.open_device, "ibv_open_device", kVersion);
  finder.Find(verbs.close_device, "ibv_close_device", kVersion);
  finder.Find(verbs.get_async_event, "ibv_get_async_event", kVersion);
  finder.Find(verbs.ack_async_event, "ibv_ack_async_event", kVersion);
  finder.Find(verbs.event_type_str, "ibv_event_type_str", kVersion);
  finder.Find(verbs.query_device, "ibv_query_device", kVersion);
  finder.Find(verbs.query_port, "ibv_query_port", kVersion);
  finder.Find(verbs.query_gid_ex, "_ibv_query_gid_ex", "IBVERBS_1.11");
  finder.Find(verbs.alloc_pd, "ibv_alloc_pd", kVersion);
  finder.Find(verbs.dealloc_pd, "ibv_dealloc_pd", kVersion);
  finder.Find(verbs.reg_mr, "ibv_reg_mr", kVersion);
  finder.Find(verbs.dereg_mr, "ibv_dereg_mr", kVersion);
  finder.Find(verbs.create_comp_channel, "ibv_create_comp_channel", "IBVERBS_1.0");
  finder.Find(verbs.destroy_comp_channel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
  finder.Find(verbs.create_cq, "ibv_create_cq", kVersion);
  finder.Find(verbs.destroy_cq, "ibv_destroy_cq", kVersion);
  finder.Find(verbs.get_cq_event, "ibv_get_cq_event", kVersion);
  finder.Find(verbs.ack_cq_events, "ibv_ack_cq_events", kVersion);
  finder.Find(verbs.create_qp, "ibv_create_qp", kVersion);
  finder.Find(verbs.modify_qp, "ibv_modify_qp", kVersion);
  finder.Find(verbs.destroy_qp, "ibv_destroy_qp", kVersion);
  finder.Find(verbs.fork_init, "ibv_fork_init", kVersion);
  finder.Find(verbs.wc_status_str, "ibv_wc_status_str", kVersion);
}

}  // namespace

Result<Verbs> LoadVerbs(const std::string& library) {
  // RTLD_LOCAL: the names of this library must not get in the way of other libraries' names.
  void* loaded = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded == nullptr) {
    return Status(StatusCode::kUnavailable,
                  std::string("the library for RDMA cannot be loaded: ") + dlerror() +
                      "; install ibverbs-providers (Debian, Ubuntu) or rdma-core (Fedora, RHEL)");
  }
  Verbs verbs;
  Finder finder(loaded);
  FindAll(finder, verbs);
  if (!finder.missing().empty()) {
    return Status(StatusCode::kUnavailable, library + " has no function " + finder.missing() +
                                                ", which rdma-core has since version 34; install "
                                                "a newer rdma-core");
  }
  // Newer kernels copy the pages of devices at a fork, and then there is nothing to do.
  if (int error = verbs.fork_init(); error != 0) {
    return Status(StatusCode::kUnavailable,
                  library + " cannot keep its memory from forked children: " +
                      std::generic_category().message(error) +
                      "; another library has used it before: set IBV_FORK_SAFE=1, or use a kernel "
                      "of version 5.12 or newer");
  }
  return verbs;
}

}  // namespace byteps::transport
