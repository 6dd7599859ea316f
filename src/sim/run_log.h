#pragma once
// A run log: an engine's inputs, decisions and times in order, sufficient to repeat the decisions without the
// model. Written by recorder.h, read by replay.h. Contains prompts and answers as token ids.
//     file     "PAGODARL", version (1 byte), records: the header first, `end` last
//     record   kind (1 byte), payload length (varint), payload, checksum of kind and payload (4 bytes)
// If `end` is missing, the run was killed. Numbers are varints (LEB128; signed ones zigzag), doubles and
// floats their bits, little-endian. A sequence that decodes as in the previous step, at the same index of the
// batch, takes two bytes plus its token. Readers trust no byte. Threads: none; each object has one user.
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/step_observer.h"
#include "sim/parts_factory.h"

namespace pagoda {

struct RunHeader {
  EngineModes modes;
  EngineConfig engine;
  std::int64_t num_blocks = 0, num_swap_blocks = 0;
};

struct LoggedSequence {
  SequenceId id{};
  std::int32_t num_computed_tokens = 0, count = 0;
  std::uint32_t draft_digest = 0;  // digest of the draft tokens among these; 0: none
  bool sample = false, beam = false;
  std::uint16_t table_digest = 0;
  // The model's tokens, including those after each draft. Log-probabilities only for beams, whose decisions
  // depend on them.
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  // Verdicts of the constraint on the tokens: indices of those that end the sequence, and the row at a dead
  // end (0: the model's own answer, followed by the rows after each draft; -1: none).
  std::vector<std::int32_t> ends;
  std::int32_t dead_row = -1;

  bool same_decision(const LoggedSequence& other) const {
    return id == other.id && num_computed_tokens == other.num_computed_tokens && count == other.count &&
           draft_digest == other.draft_digest && sample == other.sample && beam == other.beam &&
           table_digest == other.table_digest;
  }
};

struct LoggedStep {
  TimeNs started = 0, finished = 0;  // since the start of the log
  double swap_seconds = 0;
  bool failed = false;  // the model runner failed; no step follows
  // The engine planned the next step before this step's results arrived, even if there was nothing to run.
  bool next_planned = false;
  std::int64_t num_swapped_out = 0, num_swapped_in = 0, num_copies = 0;
  std::uint32_t copies_digest = 0;
  std::int64_t num_tier_moves = 0;
  std::uint32_t tiers_digest = 0;
  TierNews tier_news;
  std::vector<RequestId> preempted;
  std::vector<LoggedSequence> sequences;
};

// Returns the decisions of a batch, without answers and times.
LoggedStep decisions_of(const ScheduledBatch& batch);
// Completes `decisions` with the answers and times of the report.
LoggedStep logged_step(LoggedStep decisions, const StepReport& report);
// Empty if both are the same; otherwise one sentence that describes the first difference.
std::string first_difference(const LoggedStep& recorded, const LoggedStep& now);

struct LoggedAbort {
  RequestId id{};
};
struct LoggedAbortSequence {
  RequestId id{};
  std::int32_t index = 0;
};
struct LoggedAddPrefix {
  std::string name;
  std::vector<TokenId> tokens;
};
struct LoggedDropPrefix {
  std::string name;
};
struct LoggedResetCache {};  // drops the whole prefix cache
struct LoggedEraseCached {   // drops the cached rows of this owner
  CacheOwner owner;
};
// The system's answer to a memory manager's request for more pages. Precedes the step in which the manager
// asked.
struct LoggedGrant {
  bool granted = false;
};
// A sequence's drafts after a constraint removed or added some. Precedes the step that uses them.
struct LoggedDrafts {
  SequenceId id{};
  std::vector<TokenId> tokens;
};
struct LoggedEnd {};
// Request::arrival_time, too, is relative to the start of the log.
using LogEvent =
    std::variant<Request, LoggedAbort, LoggedAbortSequence, LoggedAddPrefix, LoggedDropPrefix,
                 LoggedResetCache, LoggedEraseCached, LoggedStep, LoggedGrant, LoggedDrafts, LoggedEnd>;

class RunLogWriter {
 public:
  // invalid_argument: the file cannot be created.
  static Result<std::unique_ptr<RunLogWriter>> create(const std::string& path, const RunHeader& header);
  void write(const LogEvent& event);
  // internal: part of the log could not be written.
  Status flush();

 private:
  RunLogWriter() = default;
  void write_record(std::uint8_t kind, const std::string& payload);
  std::ofstream file_;
  LoggedStep before_;
};

class RunLogReader {
 public:
  // not_found, corrupt_data.
  static Result<std::unique_ptr<RunLogReader>> open(const std::string& path);
  const RunHeader& header() const { return header_; }
  // nullopt: the log stops without an `end`. corrupt_data: the message names the record and the error.
  Result<std::optional<LogEvent>> next();
  std::int64_t num_records() const { return num_records_; }  // so far

 private:
  RunLogReader() = default;
  struct Record {
    std::uint8_t kind = 0;
    std::string payload;
  };
  Result<std::optional<Record>> read_record();
  Status corrupt(const std::string& what) const;

  std::ifstream file_;
  std::string path_;
  RunHeader header_;
  LoggedStep before_;
  std::int64_t num_records_ = 0;
};

}  // namespace pagoda
