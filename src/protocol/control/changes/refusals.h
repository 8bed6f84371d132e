// Whom the job has refused since it gathers, and why: what differs, for the texts that say who is
// missing. Bounded, whatever strangers do.
#pragma once

#include <array>
#include <set>
#include <string>
#include <vector>

namespace byteps::protocol {

struct Refusal {
  std::string who;   // for people: "worker 1 (process 42 on node)", "10.0.0.3:4711 (server)"
  std::string kind;  // the same for each attempt of this one: without process and port
  std::string why;
  bool proven = false;  // it knows the job's secret
};

class Refusals {
 public:
  // Remembers it as the latest one. Returns whether it is to be told: once, when it is the first of
  // its kind and reason, and not one of too many.
  bool Note(const Refusal& refusal);

  // "; refused 10.0.0.3:4711 (server): it ..." for each of the latest, the latest last; or nothing.
  std::string Describe() const;

  void Forget();

 private:
  std::vector<Refusal> latest_;
  std::array<std::set<std::string>, 2> told_;  // strangers', and those of who is proven
};

// "refused 10.0.0.3:4711 (server): it ..."
std::string Describe(const Refusal& refusal);

}  // namespace byteps::protocol
