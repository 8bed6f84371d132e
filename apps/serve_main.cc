#include "apps/serve_main.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "src/config/arguments.h"
#include "src/config/environment.h"
#include "src/config/option_text.h"
#include "src/config/options.h"

namespace byteps::apps {
namespace {

const char* Purpose(Role role) {
  return role == Role::kServer ? "Sums the tensors of a byteps job."
                               : "Coordinates a byteps job: brings its processes together.";
}

std::string HelpText(const Service& service) {
  return fmt::format(
      "Usage: {0} [--OPTION VALUE]...\n\n{1} Runs until the job is over.\n\n"
      "  -h, --help\n      Print this text.\n  --version\n      Print the version.\n"
      "  --print-config ROLE\n      Print the options that a worker, server or scheduler "
      "would have in this environment.\n\n"
      "Options; a flag wins over the variable:\n\n{2}\n"
      "Exit status: 0 when the job ended in order, 1 when it failed, 2 for wrong usage, 3 when\n"
      "the job goes on without this server.\n",
      service.program, Purpose(service.role), config::FlagsHelp(service.role));
}

int Serve(const Service& service, const std::vector<std::string>& settings, std::FILE* error) {
  std::vector<const char*> texts;
  for (const std::string& setting : settings) texts.push_back(setting.c_str());
  byteps_error reason = {};
  const byteps_code code = service.serve(texts.data(), texts.size(), &reason);
  if (code == BYTEPS_OK) return kExitOk;
  fmt::print(error, "{}: {}\n", service.program, reason.message);
  if (code == BYTEPS_EVICTED) return kExitEvicted;
  return code == BYTEPS_INVALID_ARGUMENT ? kExitUsage : kExitFailed;
}

// Shows what the library would make of the same environment, and starts nothing.
int PrintConfig(const Service& service, const std::vector<std::string>& settings, std::FILE* output,
                std::FILE* error) {
  const Result<config::Options> options =
      config::LoadOptions(config::Environment::OfProcess(), settings);
  if (!options.ok()) {
    fmt::print(error, "{}: {}\n", service.program, options.status().message());
    return kExitUsage;
  }
  for (const std::string& warning : options->warnings) {
    fmt::print(error, "{}: {}\n", service.program, warning);
  }
  fmt::print(output, "{}", config::ConfigText(options.value()));
  return kExitOk;
}

}  // namespace

int RunService(const Service& service, std::span<const char* const> words, std::FILE* output,
               std::FILE* error) {
  const Result<config::Arguments> arguments = config::ParseArguments(service.role, words);
  if (!arguments.ok()) {
    fmt::print(error, "{}: {}\n", service.program, arguments.status().message());
    return kExitUsage;
  }
  if (arguments->help) {
    fmt::print(output, "{}", HelpText(service));
    return kExitOk;
  }
  if (arguments->version) {
    fmt::print(output, "{} {}\n", service.program, service.version());
    return kExitOk;
  }
  if (arguments->print_config) return PrintConfig(service, arguments->settings, output, error);
  return Serve(service, arguments->settings, error);
}

}  // namespace byteps::apps
