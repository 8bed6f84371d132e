#include "src/device/cuda/cuda_devices.h"

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "src/base/thread_annotations.h"
#include "src/device/cuda/driver.h"

namespace byteps::device::cuda {
namespace {

constexpr unsigned kEventFlags = kEventBlockingSync | kEventDisableTiming;

Address AddressOf(const void* memory) { return reinterpret_cast<Address>(memory); }

// Makes a context current on the calling thread, and gives the thread its own context back at the
// end. So that the calls do not break a capture of the user's, the thread's capture mode is relaxed
// meanwhile. The thread belongs to the user.
class WithContext {
 public:
  WithContext(const Driver& driver, Context context) : driver_(driver) {
    status_ = driver_.Check(driver_.call().cuCtxGetCurrent(&before_), "the thread's context");
    if (!status_.ok()) return;
    if (before_ != context) {
      has_changed_ = true;
      status_ = driver_.Check(driver_.call().cuCtxSetCurrent(context), "the device's context");
      if (!status_.ok()) return;
    }
    // If this fails, the calls that follow say why.
    is_relaxed_ = driver_.call().cuThreadExchangeStreamCaptureMode(&mode_) == kSuccess;
  }
  ~WithContext() {
    if (is_relaxed_) driver_.call().cuThreadExchangeStreamCaptureMode(&mode_);
    if (has_changed_) driver_.call().cuCtxSetCurrent(before_);
  }
  WithContext(const WithContext&) = delete;
  WithContext& operator=(const WithContext&) = delete;
  const Status& status() const { return status_; }

 private:
  const Driver& driver_;
  Context before_ = nullptr;
  int mode_ = kCaptureModeRelaxed;  // then the thread's own
  bool has_changed_ = false;
  bool is_relaxed_ = false;
  Status status_;
};

// Events that no mark uses. Making an event may wait for the driver, so events are used again.
class Events {
 public:
  explicit Events(const Driver& driver) : driver_(driver) {}
  // REQUIRES: the device's context is current; so for DestroyAll.
  Result<Event> Take() {
    {
      MutexLock lock(mutex_);
      if (!free_.empty()) {
        Event event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    Event event = nullptr;
    Status made = driver_.Check(driver_.call().cuEventCreate(&event, kEventFlags), "an event");
    if (!made.ok()) return made;
    return event;
  }
  void Give(Event event) {
    MutexLock lock(mutex_);
    free_.push_back(event);
  }
  void DestroyAll() {
    MutexLock lock(mutex_);
    for (Event event : free_) driver_.call().cuEventDestroy_v2(event);
    free_.clear();
  }
  const Driver& driver() const { return driver_; }

 private:
  const Driver& driver_;
  Mutex mutex_;
  std::vector<Event> free_ BYTEPS_GUARDED_BY(mutex_);
};

// Memory of this process that is pinned, by address. All devices reach it, so it is registered with
// the driver once, however many devices pin it.
class Registered {
 public:
  explicit Registered(const Driver& driver) : driver_(driver) {}
  // REQUIRES: some device's context is current; so for Remove.
  Status Add(std::byte* memory, size_t bytes, const std::string& what) {
    MutexLock lock(mutex_);
    auto found = pinned_.find(memory);
    if (found == pinned_.end()) {
      Status status = driver_.Check(
          driver_.call().cuMemHostRegister_v2(memory, bytes, kHostRegisterPortable), what);
      if (!status.ok()) return {StatusCode::kExhausted, status.message()};
      found = pinned_.emplace(memory, 0).first;
    }
    ++found->second;
    return Status::Ok();
  }
  void Remove(std::byte* memory) {
    MutexLock lock(mutex_);
    auto found = pinned_.find(memory);
    if (--found->second > 0) return;
    driver_.call().cuMemHostUnregister(memory);
    pinned_.erase(found);
  }

 private:
  const Driver& driver_;
  Mutex mutex_;  // held during calls of the driver: only threads that may wait for it come here
  std::map<std::byte*, int> pinned_ BYTEPS_GUARDED_BY(mutex_);  // how often
};

class CudaMark final : public Mark {
 public:
  // `what` is for errors.
  CudaMark(Events& events, Event event, std::string what)
      : events_(events), event_(event), what_(std::move(what)) {}
  ~CudaMark() override { events_.Give(event_); }
  Status Wait() override {
    const Driver& driver = events_.driver();
    return driver.Check(driver.call().cuEventSynchronize(event_), what_);
  }
  Result<bool> IsReached() override {
    const Driver& driver = events_.driver();
    const Code code = driver.call().cuEventQuery(event_);
    if (code == kSuccess || code == kNotReady) return code == kSuccess;
    return driver.Check(code, what_);
  }

 private:
  Events& events_;
  const Event event_;
  const std::string what_;
};

class CudaCopyStream final : public CopyStream {
 public:
  static Result<std::unique_ptr<CopyStream>> Make(const Driver& driver, const std::string& where) {
    auto made = std::make_unique<CudaCopyStream>(driver, where);
    const Functions& call = driver.call();
    Status status = driver.Check(
        call.cuStreamCreateWithPriority(&made->stream_, kStreamNonBlocking, 0), "a stream" + where);
    for (Event& event : made->ends_) {
      if (status.ok()) {
        status = driver.Check(call.cuEventCreate(&event, kEventFlags), "an event" + where);
      }
    }
    if (!status.ok()) return status;
    return std::unique_ptr<CopyStream>(std::move(made));
  }
  CudaCopyStream(const Driver& driver, const std::string& where)
      : driver_(driver), what_("a copy" + where) {}
  CudaCopyStream(const CudaCopyStream&) = delete;
  CudaCopyStream& operator=(const CudaCopyStream&) = delete;
  ~CudaCopyStream() override {
    if (stream_ != nullptr) driver_.call().cuStreamDestroy_v2(stream_);
    for (Event event : ends_) {
      if (event != nullptr) driver_.call().cuEventDestroy_v2(event);
    }
  }

  Status Copy(std::byte* to, const std::byte* from, size_t bytes) override {
    return driver_.Check(
        driver_.call().cuMemcpyAsync(AddressOf(to), AddressOf(from), bytes, stream_), what_);
  }
  Status Close(int batch) override {
    return driver_.Check(driver_.call().cuEventRecord(ends_[batch], stream_), what_);
  }
  Status Wait(int batch) override {
    return driver_.Check(driver_.call().cuEventSynchronize(ends_[batch]), what_);
  }
  // If this fails, the context is broken, and its copies have ended with it.
  void Drain() override { driver_.call().cuStreamSynchronize(stream_); }
  void* handle() override { return stream_; }

 private:
  const Driver& driver_;
  const std::string what_;
  Stream stream_ = nullptr;
  Event ends_[kBatches] = {};
};

class CudaDevice final : public Device {
 public:
  // REQUIRES: the caller has retained the context, which this object releases.
  CudaDevice(const Driver& driver, Registered& registered, int number, Ordinal ordinal,
             Context context, DeviceFacts facts)
      : driver_(driver),
        registered_(registered),
        number_(number),
        ordinal_(ordinal),
        context_(context),
        facts_(std::move(facts)),
        where_(" on cuda:" + std::to_string(number)),
        events_(driver) {}
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() override {
    {
      WithContext current(driver_, context_);
      events_.DestroyAll();
    }
    driver_.call().cuDevicePrimaryCtxRelease_v2(ordinal_);
  }

  const DeviceFacts& facts() const override { return facts_; }

  Result<std::unique_ptr<Mark>> MarkOf(void* stream) override {
    WithContext current(driver_, context_);
    if (!current.status().ok()) return current.status();
    auto* const of_user = static_cast<Stream>(stream);
    int capturing = kCaptureStatusNone;
    const Code code = driver_.call().cuStreamIsCapturing(of_user, &capturing);
    // The default stream cannot be used while a stream that waits for it is being captured.
    const bool is_implicit = code == kStreamCaptureImplicit;
    Status status =
        driver_.Check(is_implicit ? kSuccess : code, "the stream of the input" + where_);
    if (!status.ok()) return status;
    if (is_implicit || capturing != kCaptureStatusNone) {
      return Status(StatusCode::kInvalidArgument,
                    "the stream" + where_ +
                        " is being captured: an exchange cannot be part of a CUDA graph; call it "
                        "outside of the capture");
    }
    Result<Event> event = events_.Take();
    if (!event.ok()) return event.status();
    auto mark =
        std::make_unique<CudaMark>(events_, event.value(), "the work before the exchange" + where_);
    status = driver_.Check(driver_.call().cuEventRecord(event.value(), of_user),
                           "the stream of the input" + where_);
    if (!status.ok()) return status;
    return std::unique_ptr<Mark>(std::move(mark));
  }

  Status CheckMemory(const void* memory) override {
    WithContext current(driver_, context_);
    if (!current.status().ok()) return current.status();
    unsigned type = 0;
    Code code =
        driver_.call().cuPointerGetAttribute(&type, kPointerAttributeMemoryType, AddressOf(memory));
    if (code != kSuccess || type != kMemoryTypeDevice) {
      return {StatusCode::kInvalidArgument, "the memory is no memory of a GPU"};
    }
    int number = 0;
    code = driver_.call().cuPointerGetAttribute(&number, kPointerAttributeDeviceOrdinal,
                                                AddressOf(memory));
    if (code != kSuccess || number != number_) {
      return {StatusCode::kInvalidArgument,
              "the memory belongs to cuda:" + std::to_string(number) +
                  ", but the request names cuda:" + std::to_string(number_)};
    }
    return Status::Ok();
  }

  Status Enter() override {
    Status status =
        driver_.Check(driver_.call().cuCtxSetCurrent(context_), "the context of a thread" + where_);
    if (!status.ok()) return status;
    // Otherwise this thread's calls would break the capture of a graph on another thread.
    int mode = kCaptureModeRelaxed;
    return driver_.Check(driver_.call().cuThreadExchangeStreamCaptureMode(&mode),
                         "the capture mode of a thread" + where_);
  }

  Result<std::unique_ptr<CopyStream>> NewCopyStream() override {
    return CudaCopyStream::Make(driver_, where_);
  }

  Result<std::byte*> TakePinned(size_t bytes) override {
    WithContext current(driver_, context_);
    if (!current.status().ok()) return current.status();
    void* memory = nullptr;
    Status status = driver_.Check(driver_.call().cuMemHostAlloc(&memory, bytes, kHostAllocPortable),
                                  "pinned memory" + where_);
    if (!status.ok()) return Status(StatusCode::kExhausted, status.message());
    return static_cast<std::byte*>(memory);
  }
  void GivePinned(std::byte* memory) override {
    WithContext current(driver_, context_);
    driver_.call().cuMemFreeHost(memory);
  }
  Status Pin(std::byte* memory, size_t bytes) override {
    WithContext current(driver_, context_);
    if (!current.status().ok()) return current.status();
    return registered_.Add(memory, bytes, "pinned memory" + where_);
  }
  void Unpin(std::byte* memory) override {
    WithContext current(driver_, context_);
    registered_.Remove(memory);
  }

 private:
  const Driver& driver_;
  Registered& registered_;
  const int number_;
  const Ordinal ordinal_;
  const Context context_;
  const DeviceFacts facts_;
  const std::string where_;  // " on cuda:1", for errors
  Events events_;
};

class CudaDevices final : public Devices {
 public:
  CudaDevices(Driver driver, int count)
      : driver_(std::move(driver)), count_(count), devices_(static_cast<size_t>(count)) {}

  int count() const override { return count_; }
  const std::string& version() const override { return driver_.version(); }

  Result<DeviceFacts> FactsOf(int number) const override {
    Ordinal ordinal = 0;
    Status found = Find(number, ordinal);
    if (!found.ok()) return found;
    const Functions& call = driver_.call();
    const std::string what = NameOf(number);
    char name[256] = "";
    char address[64] = "";
    unsigned char uuid[kUuidBytes] = {};
    Status told = driver_.Check(call.cuDeviceGetName(name, sizeof(name), ordinal), what);
    if (told.ok()) {
      told = driver_.Check(call.cuDeviceGetPCIBusId(address, sizeof(address), ordinal), what);
    }
    if (told.ok()) {
      auto* const place = reinterpret_cast<CUuuid_st*>(uuid);
      told = driver_.Check(call.cuDeviceGetUuid_v2(place, ordinal), what);
    }
    if (!told.ok()) return told;
    DeviceFacts facts{.name = name, .uuid = "", .address = address};
    for (unsigned char byte : uuid) {
      char hex[3];
      std::snprintf(hex, sizeof(hex), "%02x", byte);
      facts.uuid += hex;
    }
    return facts;
  }

  Result<Device*> Open(int number) override {
    Ordinal ordinal = 0;
    Status found = Find(number, ordinal);
    if (!found.ok()) return found;
    MutexLock lock(mutex_);
    std::unique_ptr<CudaDevice>& device = devices_[static_cast<size_t>(number)];
    if (device != nullptr) return device.get();
    Result<DeviceFacts> facts = FactsOf(number);
    if (!facts.ok()) return facts.status();
    Context context = nullptr;
    Status retained = driver_.Check(driver_.call().cuDevicePrimaryCtxRetain(&context, ordinal),
                                    "the context of " + NameOf(number));
    if (!retained.ok()) return retained;
    device = std::make_unique<CudaDevice>(driver_, registered_, number, ordinal, context,
                                          std::move(facts).value());
    return device.get();
  }

 private:
  static std::string NameOf(int number) { return "cuda:" + std::to_string(number); }

  Status Find(int number, Ordinal& ordinal) const {
    if (number >= 0 && number < count_) {
      return driver_.Check(driver_.call().cuDeviceGet(&ordinal, number), NameOf(number));
    }
    return {StatusCode::kInvalidArgument, "there is no device " + std::to_string(number) +
                                              ": this process sees " + std::to_string(count_) +
                                              " (CUDA_VISIBLE_DEVICES), from 0"};
  }

  const Driver driver_;
  const int count_;
  Registered registered_{driver_};
  Mutex mutex_;
  std::vector<std::unique_ptr<CudaDevice>> devices_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Devices>> FindDevices(const std::string& library) {
  Result<Driver> driver = Driver::Load(library);
  if (!driver.ok()) return driver.status();
  int count = 0;
  Status counted = driver->Check(driver->call().cuDeviceGetCount(&count), "the number of GPUs");
  if (!counted.ok()) return counted;
  if (count == 0) {
    return Status(StatusCode::kUnavailable,
                  "the CUDA driver (version " + driver->version() +
                      ") shows no GPU to this process; look at CUDA_VISIBLE_DEVICES");
  }
  return std::unique_ptr<Devices>(std::make_unique<CudaDevices>(std::move(driver).value(), count));
}

}  // namespace byteps::device::cuda
