// Converts requests of the C interface to operations of the session. Only this code reads requests.
// It refuses requests that no operation can express; admission.h checks the rest.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "byteps/byteps.h"
#include "src/base/status.h"
#include "src/protocol/worker/exchange/operation.h"
#include "src/session/completion_thread.h"
#include "src/session/device/staged_operations.h"

namespace byteps::session {

// Checks the length of a name, because names travel in control messages, which have a limit.
Status CheckName(std::string_view name);

// Returns the operation of the request. Copies all but input and output.
Result<protocol::Operation> ReadRequest(const byteps_request& request);

// Returns the device that has the memory of the request; no value: the host has it. REQUIRES:
// ReadRequest has accepted the request.
std::optional<DevicePlace> PlaceOf(const byteps_request& request);

// Returns the function to call at the operation's end; null for none.
Completion::Function CompletionOf(const byteps_request& request);

// Writes at most `capacity` ranks, and to *count how many there are.
Status WriteRanks(const std::vector<uint32_t>& from, int32_t* ranks, size_t capacity,
                  size_t* count);

}  // namespace byteps::session
