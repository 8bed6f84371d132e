// Converts between what the C interface is given and what the session takes: this is the one place
// where a request is read. It refuses what cannot be said in the session's terms; admission.h looks
// at what remains.
#pragma once

#include <string_view>
#include <vector>

#include "byteps/byteps.h"
#include "src/base/status.h"
#include "src/protocol/worker/worker.h"
#include "src/session/completion_thread.h"

namespace byteps::session {

// Names travel in control messages, which have a limit.
Status CheckName(std::string_view name);

// What the request asks for. Copies all but input and output.
Result<protocol::Operation> ReadRequest(const byteps_request& request);

// What is to be called when it has ended; null for nothing.
Completion::Function CompletionOf(const byteps_request& request);

// For functions that write ranks: at most `capacity`, and to *count how many there are.
Status WriteRanks(const std::vector<uint32_t>& from, int32_t* ranks, size_t capacity,
                  size_t* count);

}  // namespace byteps::session
