#include "src/device/cuda/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>

#include "src/device/cuda/nvml_api.h"
#include "src/device/library.h"

namespace byteps::device::cuda {
namespace {

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
// No machine has more; the square of this number is asked for.
constexpr unsigned kGpusMax = 64;

Result<NvmlFunctions> FindNvml(const std::string& path) {
  Result<void*> library =
      OpenLibrary(path, kNvmlLibrary, "the library of NVML",
                  "; a container gets it with NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  if (!library.ok()) return library.status();
  NvmlFunctions found;
  const char* missing = nullptr;
#define BYTEPS_NVML_FIND(returned, name, ...)                                         \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library.value(), #name)); \
  if (found.name == nullptr && missing == nullptr) missing = #name;
  BYTEPS_NVML_FUNCTIONS(BYTEPS_NVML_FIND)
#undef BYTEPS_NVML_FIND
  if (missing == nullptr) return found;
  return Status(StatusCode::kUnavailable,
                "the library of NVML (" + (path.empty() ? kNvmlLibrary : path) +
                    ") does not have the function " + missing + "; install a newer driver");
}

// Holds NVML started.
class Nvml {
 public:
  explicit Nvml(const NvmlFunctions& functions)
      : call_(functions), started_(Check(call_.nvmlInit_v2(), "NVML does not start")) {}
  ~Nvml() {
    if (started_.ok()) call_.nvmlShutdown();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const Status& started() const { return started_; }

  Result<MachineGpus> Look() const {
    unsigned count = 0;
    Status told = Check(call_.nvmlDeviceGetCount_v2(&count), "NVML does not count the GPUs");
    if (!told.ok()) return told;
    std::vector<NvmlDevice> devices(std::min(count, kGpusMax));
    MachineGpus machine;
    for (unsigned i = 0; i < devices.size(); ++i) {
      told = Check(call_.nvmlDeviceGetHandleByIndex_v2(i, &devices[i]),
                   "NVML does not show GPU " + std::to_string(i));
      if (!told.ok()) return told;
      Result<MachineGpu> gpu = LookAt(devices[i]);
      if (!gpu.ok()) return gpu.status();
      machine.gpus.push_back(std::move(gpu).value());
    }
    for (NvmlDevice one : devices) {
      for (NvmlDevice other : devices) machine.reach.push_back(ReachOf(one, other));
    }
    return machine;
  }

 private:
  Status Check(int code, const std::string& what) const {
    if (code == kNvmlSuccess) return Status::Ok();
    const char* text = call_.nvmlErrorString(code);
    return {StatusCode::kUnavailable,
            what + ": " + (text == nullptr ? "error " + std::to_string(code) : text)};
  }

  Result<MachineGpu> LookAt(NvmlDevice device) const {
    char name[kNvmlNameBytes] = "";
    char uuid[kNvmlUuidBytes] = "";
    NvmlPciInfo place{};
    Status told = Check(call_.nvmlDeviceGetName(device, name, sizeof(name)), "the name of a GPU");
    if (told.ok()) {
      told = Check(call_.nvmlDeviceGetUUID(device, uuid, sizeof(uuid)), "what a GPU is");
    }
    if (told.ok()) told = Check(call_.nvmlDeviceGetPciInfo_v3(device, &place), "where a GPU is");
    if (!told.ok()) return told;
    unsigned now = 0, after_restart = 0;
    // Most kinds of GPUs have no parts, and answer that this is not supported.
    const int parts = call_.nvmlDeviceGetMigMode(device, &now, &after_restart);
    return MachineGpu{.name = name,
                      .uuid = DigitsOf(uuid),
                      .address = place.address,
                      .has_parts = parts == kNvmlSuccess && now == kNvmlPartsOn};
  }

  // Returns "5141..." for "GPU-5141-...", as the CUDA driver has it.
  static std::string DigitsOf(std::string uuid) {
    if (const size_t dash = uuid.find('-'); dash != std::string::npos) uuid.erase(0, dash + 1);
    std::erase(uuid, '-');
    std::ranges::transform(uuid, uuid.begin(), [](unsigned char c) { return std::tolower(c); });
    return uuid;
  }

  GpuReach ReachOf(NvmlDevice one, NvmlDevice other) const {
    if (one == other) return GpuReach::kNot;
    const auto ask = [&](int what) {
      int status = kNvmlPeerUnknown;
      const int code = call_.nvmlDeviceGetP2PStatus(one, other, what, &status);
      return code == kNvmlSuccess ? status : kNvmlPeerUnknown;
    };
    if (ask(kNvmlPeerNvlink) == kNvmlPeerOk) return GpuReach::kNvlink;
    const int read = ask(kNvmlPeerRead), write = ask(kNvmlPeerWrite);
    if (read == kNvmlPeerUnknown || write == kNvmlPeerUnknown) return GpuReach::kUnknown;
    return read == kNvmlPeerOk && write == kNvmlPeerOk ? GpuReach::kPci : GpuReach::kNot;
  }

  const NvmlFunctions call_;
  const Status started_;
};

}  // namespace

Result<MachineGpus> LookAtMachine(const std::string& path) {
  Result<NvmlFunctions> functions = FindNvml(path);
  if (!functions.ok()) return functions.status();
  const Nvml nvml(functions.value());
  if (!nvml.started().ok()) return nvml.started();
  return nvml.Look();
}

}  // namespace byteps::device::cuda
