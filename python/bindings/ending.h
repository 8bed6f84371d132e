#pragma once

#include <memory>

#include "byteps/byteps.h"

namespace byteps::python {

// Learns how an operation ended for which no Python code waits. A framework's call implements it.
// The session shares it until the operation is over, and Python as long as it looks at the call.
class Ending : public std::enable_shared_from_this<Ending> {
 public:
  Ending() = default;
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  virtual ~Ending() = default;

  // The session has accepted the operation. Ended will come on a thread of the library, perhaps
  // before this returns.
  virtual void Accepted() = 0;

  // The operation is over. Must not block or take the interpreter lock. The caller releases the
  // handle afterwards, so this function copies the parts of the result that it needs.
  virtual void Ended(byteps_session* session, byteps_handle handle, byteps_code code) = 0;
};

// Starts an operation like byteps_start, and tells `ending` how it ends. If the operation is
// refused, `ending` gets no call.
inline byteps_code StartFor(const std::shared_ptr<Ending>& ending, byteps_session* session,
                            byteps_request request, byteps_handle* handle, byteps_error* error) {
  struct Awaited {
    byteps_session* session;
    std::shared_ptr<Ending> ending;

    static void Complete(void* context, byteps_handle handle, byteps_code code) noexcept {
      const std::unique_ptr<Awaited> awaited(static_cast<Awaited*>(context));
      awaited->ending->Ended(awaited->session, handle, code);
      byteps_release(awaited->session, handle);
    }
  };
  auto awaited = std::make_unique<Awaited>(Awaited{session, ending});
  request.on_complete = &Awaited::Complete;
  request.context = awaited.get();
  const byteps_code code = byteps_start(session, &request, handle, error);
  if (code != BYTEPS_OK) return code;
  awaited.release();  // Complete deletes it
  ending->Accepted();
  return code;
}

}  // namespace byteps::python
