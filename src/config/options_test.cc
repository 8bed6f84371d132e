#include "src/config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/config/job_variables_for_test.h"

namespace byteps::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Texts = std::vector<std::string>;

Environment Vars(Environment::Variables variables) { return Environment(std::move(variables)); }

Environment Job(const Environment::Variables& changes) {
  return Environment(JobVariables(changes));
}

std::string ErrorOf(const Environment& environment, const Texts& settings = {}) {
  const Result<Options> options = LoadOptions(environment, settings);
  if (options.ok()) return "no error";
  EXPECT_EQ(options.status().code(), StatusCode::kInvalidArgument);
  return options.status().message();
}

TEST(LoadOptionsTest, NothingSetIsASingleProcess) {
  const Result<Options> options = LoadOptions(Environment(), {});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->role, Role::kWorker);
  EXPECT_FALSE(IsDistributed(options.value()));
  EXPECT_EQ(WorkerCount(options.value()), 1);
  EXPECT_EQ(GlobalRank(options.value()), 0);
  EXPECT_THAT(options->warnings, IsEmpty());
  EXPECT_THAT(options->notices, IsEmpty());
}

// Returns the environment of a worker on the only machine of its job, which has two workers.
Environment Machine(const Environment::Variables& changes) {
  Environment::Variables variables = {{"DMLC_NUM_WORKER", "1"},
                                      {"DMLC_NUM_SERVER", "0"},
                                      {"BYTEPS_JOB_ID", "mine"},
                                      {"BYTEPS_LOCAL_SIZE", "2"},
                                      {"BYTEPS_LOCAL_RANK", "1"}};
  for (const auto& [name, value] : changes) variables[name] = value;
  return Environment(std::move(variables));
}

TEST(LoadOptionsTest, WorkersOfOneMachineWithoutServersSumLocally) {
  for (const char* how : {"auto", "1"}) {
    const Result<Options> options = LoadOptions(Machine({{"BYTEPS_LOCAL_REDUCE", how}}), {});
    ASSERT_TRUE(options.ok()) << options.status().ToString();
    EXPECT_TRUE(SumsLocally(options.value()));
    EXPECT_FALSE(IsDistributed(options.value())) << "it needs no server";
    EXPECT_EQ(GlobalRank(options.value()), 1);
  }
  EXPECT_FALSE(SumsLocally(LoadOptions(Environment(), {}).value())) << "one process";
  EXPECT_FALSE(SumsLocally(LoadOptions(Job({}), {}).value())) << "several machines";
}

TEST(LoadOptionsTest, WhoForbidsLocalSumsNeedsServers) {
  EXPECT_THAT(ErrorOf(Machine({{"BYTEPS_LOCAL_REDUCE", "0"}})), HasSubstr("root_host"));
  EXPECT_THAT(ErrorOf(Machine({{"BYTEPS_FORCE_DISTRIBUTED", "1"}})), HasSubstr("root_host"));
  EXPECT_THAT(ErrorOf(Machine({{"BYTEPS_LOCAL_SIZE", "65"}})), HasSubstr("root_host"));
}

// Returns the options of a worker in a job of two machines that share memory.
Result<Options> Sharing(Environment::Variables changes) {
  changes.emplace("BYTEPS_LOCAL_REDUCE", "1");
  changes.emplace("BYTEPS_LOCAL_SIZE", "4");
  changes.emplace("BYTEPS_LOCAL_RANK", "1");
  changes.emplace("DMLC_NUM_WORKER", "2");
  changes.emplace("DMLC_WORKER_ID", "1");
  return LoadOptions(Job(changes), {});
}

TEST(LoadOptionsTest, WorkersOfAMachineAreOneMemberOfAJobWithServers) {
  for (const char* how : {"auto", "1"}) {
    EXPECT_TRUE(IsOneOfMachine(Sharing({{"BYTEPS_LOCAL_REDUCE", how}}).value()));
    EXPECT_TRUE(MachinesSum(Sharing({{"BYTEPS_LOCAL_REDUCE", how}}).value()));
    EXPECT_TRUE(IsOneOfMachine(
        Sharing({{"BYTEPS_LOCAL_REDUCE", how}, {"BYTEPS_MIN_WORKERS", "8"}}).value()));
  }
  EXPECT_FALSE(MachinesSum(Sharing({{"BYTEPS_LOCAL_REDUCE", "0"}}).value()));
  EXPECT_FALSE(WhyNotOneOfMachine(Sharing({{"BYTEPS_LOCAL_REDUCE", "0"}}).value()).has_value());
  EXPECT_TRUE(IsOneOfMachine(Sharing({{"BYTEPS_MIN_WORKERS", "4"}}).value()));
}

TEST(LoadOptionsTest, AMachineOfOneWorkerSumsNothingUnlessAsked) {
  const Environment::Variables one = {{"BYTEPS_LOCAL_SIZE", "1"}, {"BYTEPS_LOCAL_RANK", "0"}};
  Environment::Variables nobody_asks = one;
  nobody_asks["BYTEPS_LOCAL_REDUCE"] = "auto";
  EXPECT_FALSE(MachinesSum(Sharing(nobody_asks).value()));
  EXPECT_FALSE(WhyNotOneOfMachine(Sharing(nobody_asks).value()).has_value());
  EXPECT_TRUE(MachinesSum(Sharing(one).value())) << "other machines may have more";
}

// All workers of a job must make the same choice, and one alone does not know the others' ranks.
TEST(LoadOptionsTest, NobodyChoosesOneMemberWhereAMachineMayBeLostForOneRank) {
  const auto options = [](Environment::Variables changes) {
    changes["BYTEPS_LOCAL_REDUCE"] = "auto";
    return Sharing(std::move(changes)).value();
  };
  EXPECT_FALSE(MachinesSum(options({{"BYTEPS_MIN_WORKERS", "4"}})));
  EXPECT_THAT(WhyNotOneOfMachine(options({{"BYTEPS_MIN_WORKERS", "4"}})).value_or(""),
              HasSubstr("BYTEPS_MIN_WORKERS"));
}

TEST(LoadOptionsTest, RanksOfAMachineNeedNotFollowOneAnother) {
  for (const char* how : {"auto", "1"}) {
    EXPECT_TRUE(IsOneOfMachine(
        Sharing({{"BYTEPS_LOCAL_REDUCE", how}, {"BYTEPS_GLOBAL_RANK", "2"}}).value()));
  }
}

TEST(LoadOptionsTest, WorkersThatCannotBeOneMemberAreSeveral) {
  const auto why = [](Environment::Variables changes) {
    const Result<Options> options = Sharing(std::move(changes));
    EXPECT_TRUE(options.ok()) << options.status().ToString();
    EXPECT_FALSE(IsOneOfMachine(options.value()));
    return WhyNotOneOfMachine(options.value()).value_or("");
  };
  EXPECT_THAT(why({{"BYTEPS_MIN_WORKERS", "5"}}), HasSubstr("BYTEPS_MIN_WORKERS"));
  EXPECT_THAT(why({{"BYTEPS_LOCAL_SIZE", "1"}, {"BYTEPS_LOCAL_RANK", "0"}}),
              HasSubstr("one worker"));
  EXPECT_THAT(why({{"BYTEPS_LOCAL_SIZE", "64"}, {"DMLC_NUM_WORKER", "3"}}), HasSubstr("192"));
  EXPECT_THAT(why({{"BYTEPS_LOCAL_SIZE", "65"}}), HasSubstr("65"));
}

// Machines of one worker have the same limit, because all workers of a job cut tensors alike.
TEST(LoadOptionsTest, PiecesFitIntoTheBlocksOfMachinesThatShare) {
  EXPECT_EQ(PieceBytesMax(Sharing({{"BYTEPS_PARTITION_BYTES", "4194304"}}).value()), 256 << 10);
  EXPECT_EQ(PieceBytesMax(Sharing({{"BYTEPS_PARTITION_BYTES", "65536"}}).value()), 65536);
  const Options apart = Sharing({{"BYTEPS_LOCAL_REDUCE", "0"}}).value();
  EXPECT_EQ(PieceBytesMax(apart), apart.partition_bytes);
}

// Without the check, a forgotten variable would make two jobs of one.
TEST(LoadOptionsTest, AJobWithoutServersSaysSo) {
  EXPECT_THAT(ErrorOf(Vars({{"BYTEPS_LOCAL_SIZE", "2"}, {"DMLC_NUM_WORKER", "1"}})),
              HasSubstr("DMLC_NUM_SERVER"));
}

TEST(LoadOptionsTest, AWorkerHasOneToSixteenLanes) {
  EXPECT_EQ(LoadOptions(Job({}), {})->lanes, 0);
  for (const char* automatic : {"auto", "AUTO", "0"}) {
    EXPECT_EQ(LoadOptions(Job({{"BYTEPS_LANES", automatic}}), {})->lanes, 0) << automatic;
  }
  EXPECT_EQ(LoadOptions(Job({{"BYTEPS_LANES", "16"}}), {})->lanes, 16);
  EXPECT_EQ(LoadOptions(Job({{"BYTEPS_LANES", "16"}}), Texts{"lanes=3"})->lanes, 3);
  EXPECT_THAT(ErrorOf(Job({{"BYTEPS_LANES", "-1"}})),
              HasSubstr("auto, or an integer from 1 to 16"));
  EXPECT_THAT(ErrorOf(Job({{"BYTEPS_LANES", "17"}})), HasSubstr("BYTEPS_LANES"));
}

TEST(LoadOptionsTest, InterfacesAreNamesEachOnce) {
  const Options two = LoadOptions(Job({{"BYTEPS_INTERFACES", " eth0, eth1.7 "}}), {}).value();
  EXPECT_THAT(Interfaces(two), ElementsAre("eth0", "eth1.7"));
  EXPECT_THAT(Interfaces(LoadOptions(Job({}), {}).value()), IsEmpty());
  for (const char* wrong : {"eth0,eth0", "eth0,,eth1", "a b", "a,b,c,d,e,f,g,h,i"}) {
    EXPECT_THAT(ErrorOf(Job({{"BYTEPS_INTERFACES", wrong}})), HasSubstr("each once")) << wrong;
  }
}

TEST(LoadOptionsTest, AServerIsToldOnceWhatItAnnounces) {
  Environment::Variables server = {{"DMLC_ROLE", "server"}, {"BYTEPS_INTERFACES", "eth0"}};
  EXPECT_TRUE(LoadOptions(Job(server), {}).ok());
  for (const char* other : {"DMLC_NODE_HOST", "DMLC_INTERFACE"}) {
    Environment::Variables both = server;
    both[other] = "eth1";
    EXPECT_THAT(ErrorOf(Job(both)), AllOf(HasSubstr("BYTEPS_INTERFACES"), HasSubstr(other)));
  }
}

TEST(LoadOptionsTest, OneOfSeveralProcessesOfAnotherLauncherDoesNotTrainAlone) {
  const Environment::Variables launchers[] = {
      {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "0"}},
      {{"MV2_COMM_WORLD_SIZE", "4"}, {"MV2_COMM_WORLD_RANK", "2"}},
      {{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}},
      {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
      {{"JSM_NAMESPACE_SIZE", "4"}, {"JSM_NAMESPACE_RANK", "0"}},
      {{"FLUX_JOB_SIZE", "4"}, {"FLUX_TASK_RANK", "0"}},
      {{"WORLD_SIZE", "4"}, {"RANK", "1"}, {"MASTER_ADDR", "10.0.0.1"}},
      {{"HOROVOD_SIZE", "4"}, {"HOROVOD_RANK", "1"}}};
  for (Environment::Variables variables : launchers) {
    const Result<Options> refused = LoadOptions(Vars(variables), {});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().code(), StatusCode::kRefused);
    EXPECT_THAT(refused.status().message(),
                AllOf(HasSubstr("has started 4 processes"), HasSubstr("bps run -np 4"),
                      HasSubstr("DMLC_NUM_WORKER=1")));
    // A user who sets the number of workers by hand, or describes a job, really wants that job.
    EXPECT_TRUE(LoadOptions(Vars(variables), Texts{"num_worker=1"}).ok());
    variables["DMLC_NUM_WORKER"] = "1";
    EXPECT_TRUE(LoadOptions(Vars(variables), {}).ok());
    variables.merge(JobVariables());
    variables["DMLC_NUM_WORKER"] = "2";
    EXPECT_TRUE(LoadOptions(Vars(variables), {}).ok());
  }
}

TEST(LoadOptionsTest, OneProcessOfAnotherLauncherMayTrainAlone) {
  const Environment::Variables alone[] = {{{"WORLD_SIZE", "1"}, {"RANK", "0"}},
                                          {{"WORLD_SIZE", "many"}, {"RANK", "0"}},
                                          // A batch script of Slurm, and a step of one task.
                                          {{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}},
                                          {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}};
  for (const Environment::Variables& variables : alone) {
    EXPECT_TRUE(LoadOptions(Vars(variables), {}).ok());
  }
}

TEST(LoadOptionsTest, ReadsTheEnvironmentContract) {
  const Result<Options> options = LoadOptions(
      Job({{"BYTEPS_LOCAL_RANK", "3"}, {"BYTEPS_LOCAL_SIZE", "4"}, {"BYTEPS_LOG_LEVEL", "INFO"}}),
      {});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_TRUE(IsDistributed(options.value()));
  EXPECT_EQ(WorkerCount(options.value()), 8);
  EXPECT_EQ(GlobalRank(options.value()), 7);
  EXPECT_EQ(options->num_server, 3);
  EXPECT_EQ(RootAddress(options.value()), "10.0.0.1:1234");
  EXPECT_EQ(options->log_level, "info");
}

TEST(LoadOptionsTest, RolesHaveTheNamesOfTheContract) {
  const std::vector<std::pair<std::string, Role>> names = {
      {"worker", Role::kWorker}, {"Server", Role::kServer}, {"scheduler", Role::kCoordinator}};
  for (const auto& [name, role] : names) {
    const Result<Options> options = LoadOptions(Job({{"DMLC_ROLE", name}}), {});
    ASSERT_TRUE(options.ok()) << options.status().ToString();
    EXPECT_EQ(options->role, role);
  }
  EXPECT_THAT(ErrorOf(Job({{"DMLC_ROLE", "joint"}})),
              AllOf(HasSubstr("role"), HasSubstr("'joint'"), HasSubstr("DMLC_ROLE"),
                    HasSubstr("worker, server, scheduler")));
}

TEST(LoadOptionsTest, ASettingWinsOverTheEnvironmentAndTheLastOneWins) {
  const Texts settings = {"num_server=4", "num_server = 5 "};
  const Result<Options> options = LoadOptions(Job({{"DMLC_NUM_SERVER", "nonsense"}}), settings);
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->num_server, 5);
}

TEST(LoadOptionsTest, AnEmptyVariableIsNotSet) {
  const Result<Options> options = LoadOptions(Vars({{"DMLC_NUM_WORKER", " "}}), {});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->num_worker, 1);
}

TEST(LoadOptionsTest, NumbersAreReadWholeAndInRange) {
  for (const std::string text : {"two", "2x", "", "1.5", "0x10", "- 1", "+"}) {
    EXPECT_THAT(ErrorOf(Environment(), {"num_worker=" + text}),
                AllOf(HasSubstr("num_worker"), HasSubstr("1 to 65536"), HasSubstr("setting")))
        << text;
  }
  EXPECT_THAT(ErrorOf(Vars({{"DMLC_NUM_WORKER", "0"}})),
              AllOf(HasSubstr("num_worker"), HasSubstr("'0'"), HasSubstr("DMLC_NUM_WORKER"),
                    HasSubstr("1 to 65536")));
  EXPECT_THAT(ErrorOf(Environment(), {"port=99999999999999999999"}), HasSubstr("0 to 65535"));
  EXPECT_THAT(ErrorOf(Environment(), {"port=-99999999999999999999"}), HasSubstr("0 to 65535"));
}

TEST(LoadOptionsTest, SwitchesHaveManySpellings) {
  for (const std::string yes : {"1", "true", "YES", "on"}) {
    const Texts settings = {"log_hide_time=" + yes};
    const Result<Options> options = LoadOptions(Environment(), settings);
    ASSERT_TRUE(options.ok());
    EXPECT_TRUE(options->log_hide_time) << yes;
  }
  for (const std::string no : {"0", "false", "No", "off"}) {
    const Texts settings = {"telemetry_on=" + no};
    const Result<Options> options = LoadOptions(Environment(), settings);
    ASSERT_TRUE(options.ok());
    EXPECT_FALSE(options->telemetry_on) << no;
  }
  EXPECT_THAT(ErrorOf(Environment(), {"telemetry_on=2"}),
              AllOf(HasSubstr("telemetry_on"), HasSubstr("0 or 1")));
}

TEST(LoadOptionsTest, UnknownSettingsNameTheNearestOne) {
  EXPECT_THAT(ErrorOf(Environment(), {"num_wokrer=2"}),
              AllOf(HasSubstr("'num_wokrer'"), HasSubstr("did you mean num_worker?")));
  EXPECT_THAT(ErrorOf(Environment(), {"colour=red"}),
              AllOf(HasSubstr("'colour'"), Not(HasSubstr("did you mean"))));
  EXPECT_THAT(ErrorOf(Environment(), {"DMLC_NUM_WORKER=2"}), HasSubstr("num_worker=VALUE"));
  EXPECT_THAT(ErrorOf(Environment(), {"num_worker"}), HasSubstr("no value"));
  EXPECT_THAT(ErrorOf(Environment(), {""}), HasSubstr("no option ''"));
}

TEST(LoadOptionsTest, PieceSizesAreRoundedAndClamped) {
  const std::vector<std::pair<std::string, int64_t>> sizes = {
      {"4096000", 4096000}, {"5000", 5056}, {"8388608", 8388608}};
  for (const auto& [text, bytes] : sizes) {
    const Result<Options> options = LoadOptions(Vars({{"BYTEPS_PARTITION_BYTES", text}}), {});
    ASSERT_TRUE(options.ok());
    EXPECT_EQ(options->partition_bytes, bytes);
    EXPECT_THAT(options->warnings, IsEmpty());
  }
  const std::vector<std::pair<std::string, int64_t>> beyond = {{"1", 4096}, {"16384000", 8388608}};
  for (const auto& [text, bytes] : beyond) {
    const Result<Options> options = LoadOptions(Vars({{"BYTEPS_PARTITION_BYTES", text}}), {});
    ASSERT_TRUE(options.ok());
    EXPECT_EQ(options->partition_bytes, bytes);
    EXPECT_THAT(options->warnings,
                ElementsAre(AllOf(HasSubstr("partition_bytes"), HasSubstr(text),
                                  HasSubstr("4096 to 8388608"), HasSubstr(std::to_string(bytes)))));
  }
}

TEST(LoadOptionsTest, AnUnknownLogLevelCountsAsWarning) {
  const Result<Options> options = LoadOptions(Vars({{"BYTEPS_LOG_LEVEL", "chatty"}}), {});
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->log_level, "warning");
  EXPECT_THAT(options->warnings, ElementsAre(HasSubstr("chatty")));
}

TEST(LoadOptionsTest, AnAliasIsReadWhenTheVariableIsNotSet) {
  const Result<Options> alias = LoadOptions(Vars({{"BYTEPS_SERVER_ENGINE_THREAD", "3"}}), {});
  ASSERT_TRUE(alias.ok());
  EXPECT_EQ(alias->server_shards, 3);
  EXPECT_THAT(alias->warnings, IsEmpty());

  const Result<Options> both =
      LoadOptions(Vars({{"BYTEPS_SERVER_ENGINE_THREAD", "3"}, {"BYTEPS_SERVER_SHARDS", "2"}}), {});
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->server_shards, 2);
}

TEST(LoadOptionsTest, AnAliasMayHaveAnotherUnit) {
  const Result<Options> options =
      LoadOptions(Vars({{"PS_HEARTBEAT_INTERVAL", "2"}, {"PS_HEARTBEAT_TIMEOUT", "30"}}), {});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(options->heartbeat_interval_ms, 2000);
  EXPECT_EQ(options->heartbeat_timeout_ms, 30000);

  const Result<Options> interval_only =
      LoadOptions(Vars({{"PS_HEARTBEAT_INTERVAL", "5"}, {"PS_HEARTBEAT_TIMEOUT", "0"}}), {});
  ASSERT_TRUE(interval_only.ok()) << interval_only.status().ToString();
  EXPECT_EQ(interval_only->heartbeat_timeout_ms, 25000);
  EXPECT_EQ(interval_only->eviction_timeout_ms, 20000);

  const Result<Options> off = LoadOptions(Vars({{"PS_HEARTBEAT_TIMEOUT", "0"}}), {});
  ASSERT_TRUE(off.ok()) << off.status().ToString();
  EXPECT_EQ(off->heartbeat_timeout_ms, Options{}.heartbeat_timeout_ms);

  EXPECT_THAT(ErrorOf(Vars({{"PS_HEARTBEAT_TIMEOUT", "9223372036854775807"}})),
              AllOf(HasSubstr("PS_HEARTBEAT_TIMEOUT"), HasSubstr("1 to 3600")));
}

TEST(LoadOptionsTest, UnknownVariablesAreWarnings) {
  const Result<Options> options = LoadOptions(Vars({{"BYTEPS_PARTITION_BYTE", "65536"},
                                                    {"BYTEPS_COLOUR", "red"},
                                                    {"DMLC_WOKRER_ID", "0"},
                                                    {"DMLC_SOMETHING_ELSE", "1"},
                                                    {"HOME", "/"}}),
                                              {});
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->warnings,
              ElementsAre(AllOf(HasSubstr("BYTEPS_COLOUR is unknown"), Not(HasSubstr("mean"))),
                          HasSubstr("did you mean BYTEPS_PARTITION_BYTES?"),
                          HasSubstr("did you mean DMLC_WORKER_ID?")));
}

TEST(LoadOptionsTest, VariablesWithoutEffectAreNamed) {
  const Result<Options> options = LoadOptions(Vars({{"BYTEPS_ENABLE_ASYNC", "1"},
                                                    {"BYTEPS_KEY_HASH_FN", "sdbm"},
                                                    {"BYTEPS_NUMA_ON", "0"},
                                                    {"DMLC_ENABLE_RDMA", "zmq"},
                                                    {"PS_VERBOSE", "0"}}),
                                              {});
  ASSERT_TRUE(options.ok());
  EXPECT_THAT(options->warnings, ElementsAre(HasSubstr("BYTEPS_ENABLE_ASYNC=1 has no effect")));
  EXPECT_THAT(options->notices, ElementsAre(HasSubstr("BYTEPS_KEY_HASH_FN=sdbm")));
}

TEST(LoadOptionsTest, OneErrorNamesAllThatIsMissing) {
  EXPECT_THAT(ErrorOf(Vars({{"DMLC_NUM_WORKER", "2"}})),
              AllOf(HasSubstr("DMLC_NUM_SERVER (num_server)"), HasSubstr("DMLC_PS_ROOT_URI"),
                    HasSubstr("DMLC_PS_ROOT_PORT"), HasSubstr("DMLC_WORKER_ID"),
                    HasSubstr("bps run"), Not(HasSubstr("DMLC_NUM_WORKER"))));
  EXPECT_THAT(ErrorOf(Vars({{"DMLC_ROLE", "scheduler"}, {"DMLC_NUM_WORKER", "2"}})),
              AllOf(HasSubstr("a scheduler"), HasSubstr("DMLC_PS_ROOT_PORT"),
                    Not(HasSubstr("DMLC_WORKER_ID"))));
  EXPECT_THAT(ErrorOf(Vars({{"BYTEPS_FORCE_DISTRIBUTED", "1"}})), HasSubstr("DMLC_PS_ROOT_URI"));
  EXPECT_THAT(ErrorOf(Job({{"DMLC_PS_ROOT_PORT", "0"}})), HasSubstr("DMLC_PS_ROOT_PORT"));
}

TEST(LoadOptionsTest, AWorkerThatNamesAJobDoesNotTrainAlone) {
  EXPECT_THAT(ErrorOf(Vars({{"DMLC_PS_ROOT_URI", "10.0.0.1"},
                            {"DMLC_PS_ROOT_PORT", "1234"},
                            {"DMLC_NUM_SERVER", "1"},
                            {"DMLC_WORKER_ID", "0"}})),
              HasSubstr("DMLC_NUM_WORKER"));
  // One machine with one process is a job of its own, as in the original contract.
  const Result<Options> alone =
      LoadOptions(Vars({{"DMLC_NUM_WORKER", "1"}, {"DMLC_NUM_SERVER", "1"}}), {});
  EXPECT_TRUE(alone.ok()) << alone.status().ToString();
}

TEST(LoadOptionsTest, TheStepsOfATraceMakeSenseIfThereIsATrace) {
  const std::vector<std::pair<std::string, std::string>> wrong = {{"0", "3"}, {"3", "3"}};
  for (const auto& [first, last] : wrong) {
    Environment::Variables variables = {{"BYTEPS_TRACE_ON", "1"},
                                        {"BYTEPS_TRACE_START_STEP", first},
                                        {"BYTEPS_TRACE_END_STEP", last}};
    EXPECT_THAT(LoadOptions(Environment(variables), {}).status().message(),
                AllOf(HasSubstr("trace_start_step=" + first), HasSubstr("trace_end_step=" + last)));
    variables["BYTEPS_TRACE_ON"] = "0";
    EXPECT_TRUE(LoadOptions(Environment(variables), {}).ok());
  }
}

TEST(LoadOptionsTest, ATimelineHasAFileUnlessItIsToBeginLater) {
  EXPECT_FALSE(HasTimelineFile(LoadOptions(Vars({}), {}).value()));
  EXPECT_FALSE(HasTimelineFile(LoadOptions(Vars({{"HOROVOD_TIMELINE", "DYNAMIC"}}), {}).value()));
  const Result<Options> wish = LoadOptions(Vars({{"HOROVOD_TIMELINE", "/tmp/t.json"}}), {});
  EXPECT_TRUE(HasTimelineFile(wish.value()));
  EXPECT_EQ(wish->timeline, "/tmp/t.json");
}

TEST(LoadOptionsTest, ContradictionsNameBothSides) {
  EXPECT_THAT(ErrorOf(Job({{"DMLC_WORKER_ID", "2"}})),
              AllOf(HasSubstr("worker_id=2"), HasSubstr("num_worker=2")));
  EXPECT_THAT(ErrorOf(Job({{"BYTEPS_LOCAL_RANK", "1"}})),
              AllOf(HasSubstr("local_rank=1"), HasSubstr("local_size=1")));
  EXPECT_THAT(ErrorOf(Job({{"BYTEPS_GLOBAL_RANK", "2"}})), HasSubstr("global_rank=2"));
  EXPECT_THAT(ErrorOf(Job({{"DMLC_NUM_SERVER", "0"}})), HasSubstr("at least one server"));
  EXPECT_THAT(ErrorOf(Environment(), {"heartbeat_timeout_ms=100"}),
              AllOf(HasSubstr("heartbeat_timeout_ms=100"), HasSubstr("heartbeat_interval_ms=200")));
  EXPECT_THAT(ErrorOf(Environment(), {"eviction_timeout_ms=300"}),
              AllOf(HasSubstr("eviction_timeout_ms=300"), HasSubstr("heartbeat_interval_ms=200")));
}

TEST(LoadOptionsTest, TlsNeedsASecretWhereThereAreConnections) {
  EXPECT_THAT(ErrorOf(Job({{"BYTEPS_TLS", "1"}})),
              AllOf(HasSubstr("BYTEPS_TLS"), HasSubstr("set BYTEPS_JOB_SECRET")));
  const auto with = LoadOptions(Job({{"BYTEPS_TLS", "1"}, {"BYTEPS_JOB_SECRET", "s"}}), {});
  ASSERT_TRUE(with.ok()) << with.status().ToString();
  EXPECT_TRUE(with->tls);
  EXPECT_TRUE(LoadOptions(Vars({{"BYTEPS_TLS", "1"}}), {}).ok());  // alone
}

TEST(LoadOptionsTest, TextsHaveTheirLimits) {
  EXPECT_THAT(ErrorOf(Environment(), {"job_id=../x"}), HasSubstr("letters, digits"));
  EXPECT_THAT(ErrorOf(Environment(), {"job_id="}), HasSubstr("letters, digits"));
  EXPECT_THAT(ErrorOf(Environment(), {"root_host=[::1]"}), HasSubstr("without brackets"));
  for (const std::string bad : {"10.0.0.0", "10.0.0.0/33", "10.0.0/8", "::1/129", "x/8", "::1/"}) {
    EXPECT_THAT(ErrorOf(Environment(), {"address_cidr=" + bad}), HasSubstr("10.0.0.0/8")) << bad;
  }
  for (const std::string good : {"10.0.0.0/8", "fd00::/8", ""}) {
    const Texts settings = {"address_cidr=" + good};
    EXPECT_TRUE(LoadOptions(Environment(), settings).ok()) << good;
  }
}

TEST(DerivedOptionsTest, TheGlobalRankCanBeGiven) {
  const Result<Options> options = LoadOptions(Job({{"BYTEPS_GLOBAL_RANK", "0"}}), {});
  ASSERT_TRUE(options.ok()) << options.status().ToString();
  EXPECT_EQ(GlobalRank(options.value()), 0);
}

TEST(DerivedOptionsTest, AnOperationHasALimitUnlessItIsTurnedOff) {
  EXPECT_EQ(OperationTimeout(Options()), 1800);
  EXPECT_EQ(OperationTimeout({.operation_timeout_s = 0}), 0);
}

TEST(DerivedOptionsTest, CreditIsInBytesOrInPieces) {
  Options options;
  EXPECT_EQ(CreditBytes(options), 0);
  options.scheduling_credit = 4;
  EXPECT_EQ(CreditBytes(options), 4 * options.partition_bytes);
  options.credit_bytes = 100;
  EXPECT_EQ(CreditBytes(options), 100);
}

TEST(DerivedOptionsTest, AnIpv6RootIsBracketed) {
  Options options;
  options.root_host = "fd00::1";
  options.root_port = 99;
  EXPECT_EQ(RootAddress(options), "[fd00::1]:99");
}

}  // namespace
}  // namespace byteps::config
