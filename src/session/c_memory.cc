// The C interface: memory for tensors. Checks arguments, converts, and forwards.
#include "byteps/byteps.h"
#include "src/session/c_error.h"
#include "src/session/c_session.h"
#include "src/session/sized_struct.h"

using byteps::Result;
using byteps::Status;
using byteps::runtime::TensorMemory;
using byteps::session::Call;
using byteps::session::Missing;
using byteps::session::Session;

extern "C" {

byteps_code byteps_alloc_shared(byteps_session* session, size_t bytes, byteps_shared_memory* memory,
                                byteps_error* error) {
  return Call(session, error, [&](Session& inner) -> Status {
    if (memory == nullptr) return Missing("the place for the memory");
    Status sized = byteps::session::CheckSize(*memory);
    if (!sized.ok()) return sized;
    byteps::session::WriteSized(byteps_shared_memory{}, memory);
    Result<TensorMemory::Taken> taken = inner.memory()->Take(bytes);
    if (!taken.ok()) return taken.status();
    byteps_shared_memory own{};
    own.data = taken->bytes.data();
    own.bytes = bytes;
    own.shared = taken->is_shared ? 1 : 0;
    byteps::session::WriteSized(own, memory);
    return Status::Ok();
  });
}

void byteps_free_shared(byteps_session* session, void* data) {
  if (session == nullptr || data == nullptr || !session->IsOfThisProcess()) return;
  session->GiveMemory(data);
}

}  // extern "C"
