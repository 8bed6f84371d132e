#include "src/runtime/worker/lane_runner.h"

#include <utility>

namespace byteps::runtime {
namespace {

bool EndsSomething(const protocol::LaneMail& mail) {
  return std::holds_alternative<protocol::to_lane::Stop>(mail) ||
         std::holds_alternative<protocol::to_lane::Withdraw>(mail);
}

protocol::LaneOptions With(const protocol::LaneOptions& lane, protocol::ResumePiece resume) {
  protocol::LaneOptions options = lane;
  options.resume = std::move(resume);
  return options;
}

}  // namespace

LaneRunner::LaneRunner(transport::Loop& loop, const protocol::LaneOptions& lane,
                       const ShardLinkOptions& links, const JobIdentity& identity, Log& log,
                       Events events)
    : loop_(loop),
      events_(std::move(events)),
      resumer_(loop, [this](const auto& all) { OnStagesEnded(all); }),
      lane_(With(lane, resumer_.resume()), loop.Buffers(), arithmetic_, *this),
      links_(loop, links, identity, lane.lane, lane.lanes, lane_, log,
             {[this] { OnLinks(); },
              [this] {
                ticker_.Arm();
                events_.on_event();
              },
              [this](const wire::Suspect& suspect) { events_.on_suspect(suspect); },
              [this](const std::string& why) { events_.on_evicted(why); }}),
      ticker_(
          loop, [this] { return lane_.NextTick(); },
          [this](Time now) {
            lane_.OnTick(now);
            events_.on_event();
          }) {}

void LaneRunner::OnMail(protocol::LaneMail mail) {
  if (closed_ && !EndsSomething(mail)) return;
  const auto* view = std::get_if<protocol::to_lane::View>(&mail);
  if (view != nullptr) {
    OnView(*view);
  } else {
    lane_.OnMail(std::move(mail));
  }
  ticker_.Arm();
}

// Closes first the connections that have no place in the view, so that the lane reads nothing more
// from them.
void LaneRunner::OnView(const protocol::to_lane::View& mail) {
  epoch_ = mail.view->epoch;
  links_.CloseStale(*mail.view);
  lane_.OnMail(mail);
  links_.Connect(mail.slot);
  OnLinks();
}

void LaneRunner::OnLinks() {
  ticker_.Arm();
  events_.on_links(epoch_, links_.AllUp());
}

void LaneRunner::Close() {
  closed_ = true;
  links_.Close();
}

void LaneRunner::End() {
  Close();
  lane_.AbandonAll();
}

// A closed lane begins nothing: it does not resume pieces, and their exchanges withdraw them.
void LaneRunner::OnStagesEnded(const std::vector<PieceResumer::Ended>& all) {
  if (closed_) return;
  for (const PieceResumer::Ended& one : all) lane_.Resume(one.ticket, one.how, one.error);
  ticker_.Arm();
  events_.on_event();
}

void LaneRunner::OnCoordinatorBack() {
  links_.TryAllAgain();
  for (const wire::Suspect& suspect : links_.Suspects()) events_.on_suspect(suspect);
}

void LaneRunner::SendOut(ShardId to, transport::OutFrame frame) {
  transport::Connection* connection = links_.To(to);
  if (connection != nullptr) connection->Send(std::move(frame));
}

}  // namespace byteps::runtime
