// Between a value's text and its place in Options, by row.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.h"
#include "src/config/option_rows.h"

namespace byteps::config {

// Reads `text` (white space around it is ignored) into the row's field. `origin` says in messages
// where the text came from ("DMLC_NUM_WORKER", "setting num_worker"); the number it holds is
// multiplied by `factor`. Where the row is lenient, appends a warning to options.warnings instead
// of failing. On an error `options` is unchanged.
Status SetOption(const OptionRow& row, std::string_view text, std::string_view origin,
                 int64_t factor, Options& options);

// The value as SetOption reads it; empty for an optional that is not set. Secrets come as they
// are: printing is the caller's business.
std::string FormatOption(const OptionRow& row, const Options& options);

// "integer", "0/1", "text" or "choice".
std::string_view TypeOf(const OptionRow& row);

// "1 to 64", "worker, server, scheduler", or what texts may be made of; empty: no limit.
std::string RangeOf(const OptionRow& row);

}  // namespace byteps::config
