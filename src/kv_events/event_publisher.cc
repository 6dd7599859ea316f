#include "kv_events/event_publisher.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "base/check.h"
#include "base/log.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kFrameBytes = 256;  // maximum size of a replay request; longer ones are ignored

std::string big_endian(std::int64_t number) {
  std::string out;
  for (int shift = 56; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(number) >> shift & 0xff));
  return out;
}

std::string hexadecimal(const BlockHash& hash) {
  std::string out;
  for (const auto* byte = reinterpret_cast<const unsigned char*>(hash.words.data());
       out.size() < 2 * sizeof hash.words; ++byte) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", *byte);
    out.append(digits);
  }
  return out;
}

}  // namespace

KvEventPublisher::KvEventPublisher(const KvEventsConfig& config, std::int32_t block_size,
                                   std::vector<std::string> media, MetricsRegistry& metrics)
    : config_(config),
      block_size_(block_size),
      media_(std::move(media)),
      dropped_(metrics.counter("pagoda:kv_event_batches_dropped",
                               "Number of batches of KV events dropped because the queue was full.")) {}

Result<std::unique_ptr<KvEventPublisher>> KvEventPublisher::create(const KvEventsConfig& config,
                                                                   std::int32_t block_size,
                                                                   std::vector<std::string> media,
                                                                   MetricsRegistry& metrics) {
  std::unique_ptr<KvEventPublisher> out(new KvEventPublisher(config, block_size, std::move(media), metrics));
  PAGODA_RETURN_IF_ERROR(out->open());
  out->thread_ = std::thread([publisher = out.get()] { publisher->send_all(); });
  return out;
}

Status KvEventPublisher::open() {
  auto zmq = ZmqLibrary::open();
  if (!zmq) return zmq.error();
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_ < 0) return resource_exhausted("no file descriptors are left");
  context_ = {(*zmq)->ctx_new(), EndZmqContext{*zmq}};
  auto publish = ZmqSocket::create(**zmq, context_.get(), ZMQ_PUB, static_cast<int>(config_.hwm));
  if (!publish) return publish.error();
  publish_ = *std::move(publish);
  PAGODA_RETURN_IF_ERROR(is_bound(config_.endpoint) ? publish_.bind(config_.endpoint)
                                                    : publish_.connect(config_.endpoint));
  log_info("kv-events", concat("published at ", publish_.endpoint(),
                               ": anyone who can connect receives the tokens of prompts and answers"));
  if (config_.replay_endpoint.empty()) return ok_status();
  auto replay = ZmqSocket::create(**zmq, context_.get(), ZMQ_ROUTER, static_cast<int>(config_.hwm));
  if (!replay) return replay.error();
  replay_ = *std::move(replay);
  return replay_.bind(config_.replay_endpoint);
}

KvEventPublisher::~KvEventPublisher() {
  if (thread_.joinable()) {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
    }
    eventfd_write(wake_, 1);
    thread_.join();
  }
  if (wake_ >= 0) ::close(wake_);
}

// Consecutive blocks of a sequence go into one event, as in vLLM.
void KvEventPublisher::on_stored(const Stored& block) {
  const std::optional<std::uint64_t> before =
      block.parent != nullptr ? std::optional(external_hash(*block.parent)) : std::nullopt;
  const bool follows = !events_.empty() && events_.back().kind == CacheEvent::Kind::stored &&
                       events_.back().medium == kPoolMedium && before &&
                       events_.back().hashes.back() == *before;
  if (!follows)
    events_.push_back({.kind = CacheEvent::Kind::stored,
                       .hashes = {},
                       .parent = before,
                       .salt = block.root != nullptr ? hexadecimal(*block.root) : std::string(),
                       .tokens = {},
                       .lora_id = block.adapter != nullptr ? static_cast<std::int32_t>(block.adapter->id) : 0,
                       .lora_name = block.adapter != nullptr ? block.adapter->name : std::string()});
  CacheEvent& event = events_.back();
  event.hashes.push_back(external_hash(block.hash));
  event.tokens.insert(event.tokens.end(), block.tokens.begin(), block.tokens.end());
}

// Merges consecutive events of the same kind and medium.
void KvEventPublisher::add(CacheEvent::Kind kind, std::string_view medium, const BlockHash& hash) {
  if (events_.empty() || events_.back().kind != kind || events_.back().medium != medium)
    events_.push_back(
        {.kind = kind, .hashes = {}, .parent = {}, .salt = {}, .tokens = {}, .medium = std::string(medium)});
  events_.back().hashes.push_back(external_hash(hash));
}

void KvEventPublisher::on_cleared() {
  events_.push_back(
      {.kind = CacheEvent::Kind::cleared, .hashes = {}, .parent = {}, .salt = {}, .tokens = {}});
}

void KvEventPublisher::end_step() {
  if (events_.empty()) return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  CacheEventBatch batch{.number = next_number_++,
                        .unix_seconds = now.count(),
                        .data_parallel_rank = config_.data_parallel_rank,
                        .events = std::exchange(events_, {})};
  {
    std::lock_guard lock(mutex_);
    if (std::ssize(queue_) >= config_.max_queue_size) return dropped_.add(1);
    queue_.push_back(std::move(batch));
  }
  eventfd_write(wake_, 1);
}

// Returns false if no more batches will follow.
bool KvEventPublisher::take(std::vector<CacheEventBatch>& batches) {
  eventfd_t ignored = 0;
  eventfd_read(wake_, &ignored);
  std::lock_guard lock(mutex_);
  batches = std::exchange(queue_, {});
  return !ending_;
}

void KvEventPublisher::send_all() {
  auto zmq = ZmqLibrary::open();
  CHECK(zmq.has_value());
  std::array<zmq_pollitem_t, 2> items = {
      {{.socket = nullptr, .fd = wake_, .events = ZMQ_POLLIN, .revents = 0},
       {.socket = replay_.get(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0}}};
  std::vector<CacheEventBatch> batches;
  for (bool more = true; more;) {
    (*zmq)->poll(items.data(), replay_ ? 2 : 1, -1);
    more = take(batches);
    for (const CacheEventBatch& batch : batches) publish(batch);
    if (replay_ && (items[1].revents & ZMQ_POLLIN) != 0) answer_replay();
  }
}

void KvEventPublisher::publish(const CacheEventBatch& batch) {
  std::string bytes = encode(batch, block_size_);
  (void)(publish_.send(config_.topic, true) && publish_.send(big_endian(batch.number), true) &&
         publish_.send(bytes, false));
  if (!replay_) return;
  sent_.emplace_back(batch.number, std::move(bytes));
  while (std::ssize(sent_) > config_.buffer_steps) sent_.pop_front();
}

// A client's frames: its identity (put there by ZeroMQ), an empty frame, the number.
void KvEventPublisher::answer_replay() {
  std::vector<std::string> frames;
  bool fits = true;
  do {
    char frame[kFrameBytes];
    const int size = replay_.receive(frame, sizeof frame);
    if (size < 0) return;
    fits &= std::cmp_less_equal(size, sizeof frame) && frames.size() < 3;
    if (fits) frames.emplace_back(frame, static_cast<std::size_t>(size));
  } while (replay_.more());
  if (!fits || frames.size() != 3 || frames[2].size() != sizeof(std::uint64_t)) return;
  std::uint64_t first = 0;
  for (const char c : frames[2]) first = first << 8 | static_cast<unsigned char>(c);
  const auto send = [&](std::int64_t number, const std::string& bytes) {
    return replay_.send(frames[0], true) && replay_.send("", true) &&
           replay_.send(big_endian(number), true) && replay_.send(bytes, false);
  };
  for (const auto& [number, bytes] : sent_)
    if (std::cmp_greater_equal(number, first) && !send(number, bytes)) return;
  (void)send(-1, "");
}

}  // namespace pagoda
