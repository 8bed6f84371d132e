#include "src/config/option_text.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "src/config/option_rows.h"
#include "src/config/option_values.h"
#include "src/config/text.h"

namespace byteps::config {
namespace {

constexpr std::string_view kIntroduction =
    R"(# Options and environment variables

<!-- Generated from src/config; do not edit. `ninja -C build generate_option_docs` writes it. -->

Every option has a setting (`bps server --num_worker 2`, `"num_worker=2"` in the C and C++
interfaces) and a variable of the environment. A setting wins over the variable; an empty variable
counts as not set. An unknown setting is an error, and so is a value outside its range. There are
two exceptions, because scripts for the original set these variables: BYTEPS_PARTITION_BYTES takes
the nearest allowed value, and BYTEPS_LOG_LEVEL takes its default, both with a warning. An unknown
variable that begins with `BYTEPS_` leads to a warning, which names the known one that it resembles,
if there is one.

With nothing set a worker is rank 0 of 1 and needs no other process. A job of several workers needs
`DMLC_NUM_WORKER`, `DMLC_NUM_SERVER`, `DMLC_PS_ROOT_URI` and `DMLC_PS_ROOT_PORT` for every process
and `DMLC_WORKER_ID` for workers. `bps run` sets them; `bpslaunch` reads them
([running.md](running.md)).
)";

constexpr std::string_view kOthersIntroduction = R"(
## Other variables of the contract

They have no setting of their own. *launcher*: the launcher reads it. *option*: it stands for the
value of an option, which wins over it. *none*: accepted so that existing scripts run; there is
nothing to tune. *missing*: what it asks for does not exist in this version; a value other than the
neutral one leads to a warning.

| variable | effect | neutral | why |
|---|---|---|---|
)";

std::string ReadersTitle(Readers readers) {
  if (readers == kByAll) return "Every role";
  std::vector<std::string_view> names;
  if (readers & kByWorker) names.emplace_back("Workers");
  if (readers & kByServer) names.emplace_back(names.empty() ? "Servers" : "servers");
  if (readers & kByScheduler) names.emplace_back(names.empty() ? "Scheduler" : "scheduler");
  return fmt::format("{}", fmt::join(names, " and "));
}

std::string DefaultOf(const OptionRow& row) {
  const std::string value = FormatOption(row, Options{});
  return value.empty() ? "not set" : value;
}

std::string AliasOf(const OptionRow& row) {
  if (row.alias.empty()) return {};
  if (row.alias_factor == 1) return fmt::format(" `{}` is read when that is not set.", row.alias);
  return fmt::format(" `{}` times {} is read when that is not set; 0 counts as not set.", row.alias,
                     row.alias_factor);
}

void AppendOption(const OptionRow& row, std::string& page) {
  const std::string range = RangeOf(row);
  fmt::format_to(std::back_inserter(page), "| `{}` | `{}` | {} | {} | {} | {}{} |\n", row.variable,
                 row.name, TypeOf(row), DefaultOf(row), range.empty() ? "any" : range, row.help,
                 AliasOf(row));
}

void AppendOptionsOf(Readers readers, std::string& page) {
  page += fmt::format("\n## {}\n\n", ReadersTitle(readers));
  page += "| variable | setting | type | default | range | meaning |\n|---|---|---|---|---|---|\n";
  for (const OptionRow& row : OptionRows()) {
    if (row.readers == readers) AppendOption(row, page);
  }
}

// Returns the different sets of readers, in the order of the rows.
std::vector<Readers> ReaderGroups() {
  std::vector<Readers> groups;
  for (const OptionRow& row : OptionRows()) {
    if (std::ranges::find(groups, row.readers) == groups.end()) groups.push_back(row.readers);
  }
  return groups;
}

std::string_view EffectName(Effect effect) {
  switch (effect) {
    case Effect::kLauncher: return "launcher";
    case Effect::kOption: return "option";
    case Effect::kNone: return "none";
    case Effect::kMissing: return "missing";
  }
  return "unknown";
}

}  // namespace

std::string OptionsPage() {
  std::string page(kIntroduction);
  for (const Readers readers : ReaderGroups()) AppendOptionsOf(readers, page);
  page += kOthersIntroduction;
  for (const OtherVariable& other : OtherVariables()) {
    fmt::format_to(std::back_inserter(page), "| `{}` | {} | {} | {} |\n", other.variable,
                   EffectName(other.effect), other.neutral, other.why);
  }
  return page;
}

std::string FlagsHelp(Role role) {
  std::string text;
  for (const OptionRow& row : OptionRows()) {
    if ((row.readers & ReaderOf(role)) == 0 || row.name == "role") continue;
    const std::string range = RangeOf(row);
    const std::string head = row.secret
                                 ? fmt::format("  {} only", row.variable)
                                 : fmt::format("  --{} VALUE  or {}", row.name, row.variable);
    fmt::format_to(std::back_inserter(text), "{}\n      {}\n      default: {}{}{}\n", head,
                   row.help, DefaultOf(row), range.empty() ? "" : "; allowed: ", range);
  }
  return text;
}

std::string ConfigText(const Options& options) {
  const Options defaults;
  std::string text;
  for (const OptionRow& row : OptionRows()) {
    if ((row.readers & ReaderOf(options.role)) == 0) continue;
    const std::string value = FormatOption(row, options);
    const std::string shown = row.secret && !value.empty() ? "***" : value;
    const bool is_default = value == FormatOption(row, defaults);
    fmt::format_to(std::back_inserter(text), "{}={}{}\n", row.variable, shown,
                   is_default ? "  # default" : "");
  }
  return text;
}

std::string DescribeNonDefaults(const Options& options) {
  const Options defaults;
  std::vector<std::string> parts;
  for (const OptionRow& row : OptionRows()) {
    const std::string value = FormatOption(row, options);
    if (value == FormatOption(row, defaults)) continue;
    parts.push_back(fmt::format("{}={}", row.name, row.secret ? "***" : value));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace byteps::config
