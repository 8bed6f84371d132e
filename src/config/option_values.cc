#include "src/config/option_values.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "src/config/text.h"

namespace byteps::config {
namespace {

// Keeps the arguments of SetOption for the functions that read one type each.
struct Given {
  const OptionRow& row;
  std::string_view text;
  std::string_view origin;
  int64_t factor;
};

Status Refuse(const Given& given, std::string_view expected) {
  const std::string shown = given.row.secret ? "***" : std::string(given.text);
  return Status(StatusCode::kInvalidArgument,
                fmt::format("option {}: '{}' (from {}) is not allowed; expected {}", given.row.name,
                            shown, given.origin, expected));
}

std::string NumberRange(const OptionRow& row) {
  return fmt::format("{} to {}", row.minimum + (row.zero.empty() ? 0 : 1), row.maximum);
}

// Returns "an integer from 1 to 64", in the unit in which the value was given.
std::string ExpectedNumber(const Given& given) {
  if (!given.row.zero.empty()) {
    return fmt::format("{}, or an integer from {}", given.row.zero, NumberRange(given.row));
  }
  if (given.factor == 1) return "an integer from " + NumberRange(given.row);
  const int64_t least = (given.row.minimum + given.factor - 1) / given.factor;
  return fmt::format("an integer from {} to {}", least, given.row.maximum / given.factor);
}

// Returns nothing if the text is no integer. A value beyond 64 bits becomes the nearest one within.
std::optional<int64_t> ReadInteger(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    return text.front() == '-' ? std::numeric_limits<int64_t>::min()
                               : std::numeric_limits<int64_t>::max();
  }
  if (error != std::errc()) return std::nullopt;
  return value;
}

int64_t MultiplySaturating(int64_t value, int64_t factor) {
  int64_t product = 0;
  if (!__builtin_mul_overflow(value, factor, &product)) return product;
  return value < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

Result<int64_t> ParseNumber(const Given& given, std::vector<std::string>& warnings) {
  if (!given.row.zero.empty() && LowerCase(given.text) == given.row.zero) return 0;
  const std::optional<int64_t> number = ReadInteger(given.text);
  if (!number) return Refuse(given, ExpectedNumber(given));
  const OptionRow& row = given.row;
  int64_t value = MultiplySaturating(*number, given.factor);
  if (value < row.minimum || value > row.maximum) {
    if (row.strictness != Strictness::kNearest) return Refuse(given, ExpectedNumber(given));
    value = std::clamp(value, row.minimum, row.maximum);
    warnings.push_back(fmt::format("option {}: '{}' (from {}) is outside {}; {} is used", row.name,
                                   given.text, given.origin, NumberRange(row), value));
  }
  return (value + row.multiple - 1) / row.multiple * row.multiple;
}

Result<bool> ParseSwitch(const Given& given) {
  const std::string text = LowerCase(given.text);
  for (const std::string_view yes : {"1", "true", "yes", "on"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (text == no) return false;
  }
  return Refuse(given, "0 or 1 (or true, false, yes, no, on, off)");
}

Result<std::string> ParseText(const Given& given, const Options& defaults,
                              std::vector<std::string>& warnings) {
  const OptionRow& row = given.row;
  if (row.choices.empty()) {
    if (row.text_allowed == nullptr || row.text_allowed(given.text)) {
      return std::string(given.text);
    }
    return Refuse(given, row.text_limit);
  }
  const std::string text = LowerCase(given.text);
  for (const std::string_view choice : SplitList(row.choices)) {
    if (text == choice) return text;
  }
  if (row.strictness != Strictness::kDefault) {
    return Refuse(given, fmt::format("one of {}", row.choices));
  }
  std::string fallback = FormatOption(row, defaults);
  warnings.push_back(fmt::format("option {}: '{}' (from {}) is not one of {}; {} is used", row.name,
                                 given.text, given.origin, row.choices, fallback));
  return fallback;
}

template <typename Field, typename Value>
Status Store(Result<Value> parsed, Field field, Options& options) {
  if (!parsed.ok()) return parsed.status();
  options.*field = std::move(parsed).value();
  return Status::Ok();
}

// Reads the text in the way of the type of the row's field.
struct Setter {
  const Given& given;
  Options& options;

  Status operator()(int64_t Options::* field) const {
    return Store(ParseNumber(given, options.warnings), field, options);
  }
  Status operator()(std::optional<int64_t> Options::* field) const {
    return Store(ParseNumber(given, options.warnings), field, options);
  }
  Status operator()(bool Options::* field) const {
    return Store(ParseSwitch(given), field, options);
  }
  Status operator()(std::string Options::* field) const {
    return Store(ParseText(given, Options{}, options.warnings), field, options);
  }
  Status operator()(Role Options::* field) const {
    const Result<std::string> text = ParseText(given, Options{}, options.warnings);
    if (!text.ok()) return text.status();
    for (const Role role : {Role::kWorker, Role::kServer, Role::kCoordinator}) {
      if (RoleName(role) == text.value()) options.*field = role;
    }
    return Status::Ok();
  }
};

struct Formatter {
  const OptionRow& row;
  const Options& options;

  std::string operator()(int64_t Options::* field) const {
    if (options.*field == 0 && !row.zero.empty()) return std::string(row.zero);
    return std::to_string(options.*field);
  }
  std::string operator()(std::optional<int64_t> Options::* field) const {
    return options.*field ? std::to_string(*(options.*field)) : std::string();
  }
  std::string operator()(bool Options::* field) const { return options.*field ? "1" : "0"; }
  std::string operator()(std::string Options::* field) const { return options.*field; }
  std::string operator()(Role Options::* field) const {
    return std::string(RoleName(options.*field));
  }
};

bool IsNumber(const OptionRow& row) {
  return std::holds_alternative<int64_t Options::*>(row.field) ||
         std::holds_alternative<std::optional<int64_t> Options::*>(row.field);
}

bool IsSwitch(const OptionRow& row) { return std::holds_alternative<bool Options::*>(row.field); }

}  // namespace

Status SetOption(const OptionRow& row, std::string_view text, std::string_view origin,
                 int64_t factor, Options& options) {
  const Given given{row, Trim(text), origin, factor};
  return std::visit(Setter{given, options}, row.field);
}

std::string FormatOption(const OptionRow& row, const Options& options) {
  return std::visit(Formatter{row, options}, row.field);
}

std::string_view TypeOf(const OptionRow& row) {
  if (IsNumber(row)) return "integer";
  if (IsSwitch(row)) return "0/1";
  return row.choices.empty() ? "text" : "choice";
}

std::string RangeOf(const OptionRow& row) {
  if (IsNumber(row)) {
    return row.zero.empty() ? NumberRange(row) : fmt::format("{}, {}", row.zero, NumberRange(row));
  }
  if (IsSwitch(row)) return "0, 1";
  return std::string(row.choices.empty() ? row.text_limit : row.choices);
}

}  // namespace byteps::config
