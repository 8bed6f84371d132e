// Moves values between their texts and their fields in Options, by row.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/config/option_rows.h"

namespace byteps::config {

// Reads `text` (white space around it is ignored) into the row's field. `origin` tells in messages
// where the text came from ("DMLC_NUM_WORKER", "setting num_worker"). `factor` multiplies the
// number in the text. If the row is lenient, appends a warning to options.warnings instead of
// failing. An error leaves `options` unchanged.
Status SetOption(const OptionRow& row, std::string_view text, std::string_view origin,
                 int64_t factor, Options& options);

// Returns the value as SetOption reads it; an empty text for an optional that is not set. Does not
// mask secrets: the caller takes care of them when it prints.
std::string FormatOption(const OptionRow& row, const Options& options);

// Returns "integer", "0/1", "text" or "choice".
std::string_view TypeOf(const OptionRow& row);

// Returns "1 to 64", "worker, server, scheduler", or a description of the texts that are allowed.
// An empty text means no limit.
std::string RangeOf(const OptionRow& row);

}  // namespace byteps::config
