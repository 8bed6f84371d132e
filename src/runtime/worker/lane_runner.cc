#include "src/runtime/worker/lane_runner.h"

#include <utility>

#include "src/runtime/frames.h"

namespace byteps::runtime {
namespace {

std::vector<std::byte> BitmapOf(const SlotSet& ranks) {
  std::vector<std::byte> bitmap(ranks.bitmap_bytes());
  ranks.ToBitmap(bitmap);
  return bitmap;
}

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
    : events_(std::move(events)),
      resumer_(loop, [this](const auto& all) { OnStagesEnded(all); }),
      lane_(With(lane, resumer_.resume()), pool_, arithmetic_, *this),
      links_(loop, links, identity, lane.lane, lane.lanes, pool_, lane_, log,
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

void LaneRunner::Send(ShardId to, transport::OutFrame frame) {
  transport::Connection* connection = links_.To(to);
  if (connection != nullptr) connection->Send(std::move(frame));
}

void LaneRunner::SendPush(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                          BufferRef keep) {
  Send(to, DataFrame(wire::FrameKind::kPush, header, payload, std::move(keep)));
}

void LaneRunner::SendVerdict(ShardId to, const wire::DataHeader& header, ConstByteSpan payload,
                             BufferRef keep) {
  Send(to, DataFrame(wire::FrameKind::kVerdict, header, payload, std::move(keep)));
}

void LaneRunner::SendHave(ShardId to, uint64_t epoch, const std::vector<wire::HeldPiece>& pieces) {
  Send(to, HaveFrame(pool_, epoch, pieces));
}

void LaneRunner::SendResync(ShardId to, uint64_t epoch) {
  Send(to, NumberFrame(wire::FrameKind::kResync, epoch));
}

void LaneRunner::SendAbort(ShardId to, const wire::DataHeader& push, const std::string& why) {
  Send(to, AbortFrame(pool_, push, why));
}

void LaneRunner::SendAck(ShardId to, const wire::Progress& ack) {
  Send(to, ProgressFrame(wire::FrameKind::kAck, ack));
}

void LaneRunner::SendProcessSet(ShardId to, const wire::Progress& number, const SlotSet& ranks) {
  Send(to, ProcessSetFrame(pool_, number, BitmapOf(ranks)));
}

void LaneRunner::SendJoined(ShardId to, const wire::Progress& number, const SlotSet& ranks) {
  Send(to, JoinedFrame(pool_, number, BitmapOf(ranks)));
}

}  // namespace byteps::runtime
