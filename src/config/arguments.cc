#include "src/config/arguments.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "src/config/nearest_name.h"
#include "src/config/option_rows.h"
#include "src/config/text.h"

namespace byteps::config {
namespace {

bool IsFlag(const OptionRow& row, Role role) {
  return (row.readers & ReaderOf(role)) != 0 && !row.secret && row.name != "role";
}

// Returns "--num_worker,--num-worker", the form that CLI11 expects.
std::string FlagNames(std::string_view name) {
  std::string dashed(name);
  std::ranges::replace(dashed, '_', '-');
  if (dashed == name) return fmt::format("--{}", name);
  return fmt::format("--{},--{}", name, dashed);
}

// Adds the nearest known flag to the error of CLI11, which names only the wrong argument.
std::string Explain(Role role, const std::string& what, std::span<const std::string> unread) {
  std::vector<std::string_view> names = {"help", "version", "print_config"};
  for (const OptionRow& row : OptionRows()) {
    if (IsFlag(row, role)) names.push_back(row.name);
  }
  for (const std::string& argument : unread) {
    std::string name = argument.substr(std::min(argument.find_first_not_of('-'), argument.size()));
    name.resize(std::min(name.find('='), name.size()));
    std::ranges::replace(name, '-', '_');
    const std::string_view nearest = NearestName(name, names);
    if (!nearest.empty()) return fmt::format("{}; did you mean --{}?", what, nearest);
  }
  return fmt::format("{}; --help lists the flags", what);
}

}  // namespace

Result<Arguments> ParseArguments(Role role, std::span<const char* const> arguments) {
  Arguments result;
  std::string shown_role(RoleName(role));
  std::map<std::string_view, std::string> values;
  CLI::App parser;
  parser.set_help_flag();
  parser.add_flag("-h,--help", result.help);
  parser.add_flag("--version", result.version);
  const CLI::Option* print_config = parser.add_option(FlagNames("print_config"), shown_role);
  for (const OptionRow& row : OptionRows()) {
    if (!IsFlag(row, role)) continue;
    parser.add_option(FlagNames(row.name), values[row.name])->take_last();
  }
  try {
    // CLI11 takes the words in reverse order.
    parser.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return Status(StatusCode::kInvalidArgument, Explain(role, error.what(), parser.remaining()));
  }
  result.print_config = print_config->count() > 0;
  result.settings.push_back(fmt::format("role={}", shown_role));
  for (const OptionRow& row : OptionRows()) {
    if (!IsFlag(row, role) || parser.count(fmt::format("--{}", row.name)) == 0) continue;
    result.settings.push_back(fmt::format("{}={}", row.name, values[row.name]));
  }
  return result;
}

}  // namespace byteps::config
