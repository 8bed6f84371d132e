// The table of options, one row each, and of the variables that are known but set no option here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "src/config/options.h"

namespace byteps::config {

// The roles that read an option: an "or" of these bits.
using Readers = uint8_t;
inline constexpr Readers kByWorker = 1;
inline constexpr Readers kByServer = 2;
inline constexpr Readers kByScheduler = 4;
inline constexpr Readers kByAll = kByWorker | kByServer | kByScheduler;

inline Readers ReaderOf(Role role) {
  switch (role) {
    case Role::kWorker: return kByWorker;
    case Role::kServer: return kByServer;
    case Role::kCoordinator: return kByScheduler;
  }
  return kByAll;
}

// A Strictness says what happens to a value that is not allowed.
enum class Strictness : uint8_t {
  kError,
  kNearest,  // the nearest allowed number, with a warning
  kDefault,  // the default, with a warning
};

using OptionField = std::variant<int64_t Options::*, std::optional<int64_t> Options::*,
                                 bool Options::*, std::string Options::*, Role Options::*>;

struct OptionRow {
  std::string_view name;      // the setting: snake_case, the field's name
  std::string_view variable;  // of the environment
  OptionField field;
  Readers readers = kByAll;
  int64_t minimum = 0;  // of numbers, inclusive
  int64_t maximum = 0;
  int64_t multiple = 1;   // numbers are rounded up to one of these
  std::string_view zero;  // of numbers: a word for 0, any case
  Strictness strictness = Strictness::kError;
  std::string_view choices;     // of texts: "a, b, c", any case; empty: any text
  std::string_view text_limit;  // of texts: the allowed ones, in words; text_allowed checks
  bool (*text_allowed)(std::string_view text) = nullptr;
  std::string_view alias;    // a second variable, read when `variable` is not set
  int64_t alias_factor = 1;  // its unit in units of the option; then 0 counts as not set
  bool secret = false;       // never printed, not offered on the command line
  std::string_view help;     // a sentence or two
};

std::span<const OptionRow> OptionRows();

// Returns null if no option has this name.
inline const OptionRow* FindOption(std::string_view name) {
  const auto found = std::ranges::find(OptionRows(), name, &OptionRow::name);
  return found == OptionRows().end() ? nullptr : &*found;
}

enum class Effect : uint8_t {
  kLauncher,  // read by the launcher or the Python package, not by this library
  kOption,    // stands for a value of an option, which wins over it
  kNone,      // tunes something that does not exist here or needs no tuning
  kMissing,   // asks for something that this version does not do: worth a warning
};

// A variable of the environment contract that sets no option. A variable without a row is reported
// as unknown, so one that only Python reads needs its row too.
struct OtherVariable {
  std::string_view variable;
  Effect effect;
  std::string_view neutral;  // values that ask for nothing, separated by commas
  std::string_view why;      // half a sentence
};

std::span<const OtherVariable> OtherVariables();

}  // namespace byteps::config
