// bps-scheduler: the job's coordinator, without Python or any framework.
#include <span>

#include "apps/serve_main.h"

int main(int argc, char** argv) {
  const byteps::apps::Service service = {byteps::Role::kCoordinator, "bps-scheduler", byteps_serve,
                                         byteps_version};
  const std::span<const char* const> words(argv, static_cast<size_t>(argc));
  return byteps::apps::RunService(service, words.subspan(argc > 0 ? 1 : 0), stdout, stderr);
}
