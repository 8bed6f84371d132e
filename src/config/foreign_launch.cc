#include "src/config/foreign_launch.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "src/config/text.h"

namespace byteps::config {
namespace {

struct Launcher {
  std::string_view name;
  std::string_view size;  // the variable with the number of processes that it has started
  std::string_view rank;  // the variable with the number of this process
};

constexpr Launcher kLaunchers[] = {
    {"mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"mpirun of MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
    {"mpirun or mpiexec", "PMI_SIZE", "PMI_RANK"},
    // SLURM_NTASKS would not do: a batch script, which is one process, has it, too, beside
    // SLURM_PROCID.
    {"srun of Slurm", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
    {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"},
    {"flux run", "FLUX_JOB_SIZE", "FLUX_TASK_RANK"},
    {"horovodrun", "HOROVOD_SIZE", "HOROVOD_RANK"},
    {"torchrun, Ray or another launcher for torch", "WORLD_SIZE", "RANK"},
};

int64_t NumberOf(std::string_view text) {
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

}  // namespace

std::optional<std::string> WhyNotAlone(const Environment& environment) {
  for (const Launcher& launcher : kLaunchers) {
    const int64_t size = NumberOf(Trim(environment.Get(launcher.size)));
    if (size < 2 || environment.Get(launcher.rank).empty()) continue;
    return fmt::format(
        "{} has started {} processes ({}={}), but no variable describes a job of BytePS. Each "
        "process would train alone without noticing. On one machine, start the "
        "program with 'bps run -np {} python PROGRAM' instead; on several, give each process "
        "DMLC_NUM_WORKER, DMLC_WORKER_ID, DMLC_NUM_SERVER, DMLC_PS_ROOT_URI and "
        "DMLC_PS_ROOT_PORT, and start servers and the scheduler ('bps docs running'). If this "
        "process is to train alone, set DMLC_NUM_WORKER=1",
        launcher.name, size, launcher.size, size, size);
  }
  return std::nullopt;
}

}  // namespace byteps::config
