// A program that was compiled with an older header than the library it runs with. Its structs are
// smaller, and the bytes behind them belong to the program: the library must not read or write
// there.
//
// Prints what is wrong and returns 1, or returns 0.
#include <cstdio>
#include <cstring>

#include "tests/older_byteps.h"

namespace {

constexpr int32_t kSum = 0;
constexpr int32_t kAllgather = 6;
constexpr int32_t kFloat32 = 0;

// A struct of the interface, with bytes behind it that the library must not touch.
template <typename Struct>
struct Fenced {
  Fenced() {
    std::memset(&inner, 0, sizeof(inner));
    std::memset(fence, 0x5a, sizeof(fence));
    inner.struct_size = sizeof(Struct);
  }
  bool IsWhole() const {
    for (unsigned char byte : fence) {
      if (byte != 0x5a) return false;
    }
    return inner.struct_size == sizeof(Struct);
  }

  Struct inner;
  unsigned char fence[256];
};

int Fail(const char* what, const byteps_error& error) {
  std::printf("%s: %d %s\n", what, static_cast<int>(error.code), error.message);
  return 1;
}

// Carries one operation out and looks at its result.
int Run(byteps_session* session, const Fenced<byteps_request>& request, uint32_t bytes) {
  Fenced<byteps_error> error;
  Fenced<byteps_result> result;
  uint64_t handle = 0;
  if (byteps_start(session, &request.inner, &handle, &error.inner) != 0) {
    return Fail("start", error.inner);
  }
  if (byteps_wait(session, handle, -1, &error.inner) != 0) return Fail("wait", error.inner);
  if (byteps_get_result(session, handle, &result.inner, &error.inner) != 0) {
    return Fail("result", error.inner);
  }
  if (result.inner.members != 1 || result.inner.bytes != bytes) return Fail("sum", error.inner);
  byteps_release(session, handle);
  // The error's text is longer than this program has room for.
  Fenced<byteps_request> refused = request;
  char name[4000];
  std::memset(name, 'n', sizeof(name) - 1);
  name[sizeof(name) - 1] = '\0';
  refused.inner.name = name;
  refused.inner.dtype = 77;
  const bool is_refused = byteps_start(session, &refused.inner, &handle, &error.inner) == 1;
  if (!is_refused || error.inner.code != 1) return Fail("refusal", error.inner);
  if (std::strlen(error.inner.message) != sizeof(error.inner.message) - 1) {
    return Fail("text", error.inner);
  }
  return request.IsWhole() && error.IsWhole() && result.IsWhole() ? 0 : Fail("fence", error.inner);
}

}  // namespace

int main() {
  byteps_session* session = nullptr;
  Fenced<byteps_error> error;
  if (byteps_open(nullptr, 0, &session, &error.inner) != 0) return Fail("open", error.inner);
  float data[3] = {1, 2, 3};
  const int64_t count = 3;
  Fenced<byteps_request> request;
  request.inner.name = "w";
  request.inner.op = kSum;
  request.inner.dtype = kFloat32;
  request.inner.shape = &count;
  request.inner.dimensions = 1;
  request.inner.input = data;
  request.inner.output = data;
  request.inner.priority = 3;
  if (Run(session, request, 0) != 0) return 1;
  request.inner.op = kAllgather;
  if (Run(session, request, sizeof(data)) != 0) return 1;
  byteps_close(session);
  return error.IsWhole() ? 0 : Fail("fence", error.inner);
}
