// The change of a connection from TCP to RDMA: offer, acceptance, proof in both directions, and the
// switch of each direction by itself; or a refusal, after which it stays as it is.
//
// Pure: events come in, and steps come out, which the caller carries out in the order of `Steps`.
// Data flows over TCP all the while.
#pragma once

#include <string>

#include "src/base/status.h"
#include "src/transport/rdma/offer.h"

namespace byteps::transport {

class Upgrade {
 public:
  // Steps: the caller must do this now.
  struct Steps {
    bool make = false;       // make a queue pair, post the slots; if that fails, call Fail
    bool offer = false;      // send the offer
    bool accept = false;     // connect the queue pair, and send the acceptance
    bool connect = false;    // connect the queue pair
    bool probe = false;      // send the empty message with the nonce
    bool decline = false;    // send the refusal with the reason why()
    bool give_up = false;    // destroy the queue pair; the connection stays on TCP
    bool read_rdma = false;  // the bytes that follow come over RDMA
    Status closes;           // if this is not ok, close the connection for this reason
  };

  // This end offers. REQUIRES: nothing else has happened.
  Steps Begin();

  // The other end has sent this over TCP. kProtocol: no correct peer sends it now.
  Steps OnOffer();
  Steps OnAccept();
  Steps OnDecline(const Decline& decline);
  Steps OnSwitch();

  // The empty message of the other end has come, and has the right nonce.
  Steps OnPeerProbe();
  // The device has confirmed that the own empty message has come through.
  Steps OnProbeConfirmed();

  // Something failed here, or took too long.
  Steps Fail(const Decline& reason);

  // Returns whether the own bytes shall leave over RDMA, from the next frame on. The caller sends
  // the switch as its last bytes over TCP and calls OnSwitched.
  bool WantsSwitch() const { return state_ == State::kProven && !out_switched_; }
  void OnSwitched() { out_switched_ = true; }

  // Returns whether the limit of time for the proof runs.
  bool IsOpen() const { return state_ == State::kOffered || state_ == State::kProving; }
  bool is_declined() const { return state_ == State::kDeclined; }
  bool sends_over_rdma() const { return out_switched_; }
  bool receives_over_rdma() const { return in_switched_; }
  // Returns why there is no RDMA, and whether the other end said so. REQUIRES: is_declined().
  const Decline& why() const { return why_; }
  bool is_told() const { return told_; }

 private:
  enum class State {
    kPlain,
    kOffered,  // the other end has not answered
    kProving,  // the queue pairs of both ends are connected, or will be
    kProven,
    kDeclined,
  };

  Steps Out(const std::string& what);
  void CheckProof();

  State state_ = State::kPlain;
  bool offers_ = false;
  bool confirmed_ = false;
  bool peer_came_ = false;
  bool out_switched_ = false;
  bool in_switched_ = false;
  bool told_ = false;  // the refusal came from the other end
  Decline why_;
};

}  // namespace byteps::transport
