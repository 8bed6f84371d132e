// byteps/_tensorflow.so, which TensorFlow loads. It only lets the module beside it, which Python
// has loaded before, register the operations: TensorFlow gives Python the operations that are
// registered while it loads a library.
#include <dlfcn.h>

#include <cstdio>
#include <string>

namespace {

constexpr const char* kModule = "/_core.abi3.so";
constexpr const char* kFunction = "byteps_register_tensorflow";

const char* Register() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&Register), &own) == 0) return dlerror();
  const std::string path(own.dli_fname);
  const std::string module = path.substr(0, path.rfind('/')) + kModule;
  void* loaded = dlopen(module.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (loaded == nullptr) return "import byteps._core first";
  auto* function = reinterpret_cast<const char* (*)()>(dlsym(loaded, kFunction));
  return function == nullptr ? "byteps._core is of another version" : function();
}

// This code cannot report an error to TensorFlow; byteps.tensorflow finds that operations are
// missing.
[[maybe_unused]] const bool kIsRegistered = [] {
  const char* problem = Register();
  if (problem != nullptr) std::fprintf(stderr, "byteps.tensorflow: %s\n", problem);
  return problem == nullptr;
}();

}  // namespace
