#include "src/runtime/loop_thread.h"

#include <exception>
#include <new>

namespace byteps::runtime {
namespace {

// Made before they are needed; copies share the text.
const Status kNoMemory(StatusCode::kExhausted, "there is no memory");
const Status kSomethingElse(StatusCode::kInternal, "something was thrown that is no exception");

Status Say(const std::exception& thrown) noexcept {
  try {
    return {StatusCode::kInternal, thrown.what()};
  } catch (...) {
    return kNoMemory;
  }
}

}  // namespace

Status RunLoop(transport::Loop& loop) noexcept {
  try {
    loop.Run();
    return Status::Ok();
  } catch (const std::bad_alloc&) {
    return kNoMemory;
  } catch (const std::exception& thrown) {
    return Say(thrown);
  } catch (...) {
    return kSomethingElse;
  }
}

}  // namespace byteps::runtime
