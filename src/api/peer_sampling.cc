#include "api/peer_sampling.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <limits>
#include <string>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxSamplers = 64;

// Refuses unsupported samplers, unless their values switch them off.
void refuse_samplers(FieldReader& fields) {
  constexpr double kAny = 1e9;
  const auto above = [&](std::string_view name, double off) {
    if (fields.number(name, -kAny, kAny).value_or(off) > off) fields.not_built(name);
  };
  const auto below = [&](std::string_view name, double off) {
    if (fields.number(name, -kAny, kAny).value_or(off) < off) fields.not_built(name);
  };
  for (const std::string_view name : {"mirostat", "dry_multiplier", "dynatemp_range"}) above(name, 0);
  below("tfs_z", 1);
  for (const std::string_view name :
       {"top_n_sigma", "top_a", "epsilon_cutoff", "eta_cutoff", "penalty_alpha", "smoothing_factor",
        "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"})
    above(name, 0);
  above("num_beams", 1);
  // With a threshold above one half, XTC never removes a token.
  if (fields.number("xtc_threshold", -kAny, kAny).value_or(0.1) <= 0.5) above("xtc_probability", 0);
}

// Reads `samplers`: a list of names, or a string of one letter per sampler. Samplers not listed are switched
// off.
void read_samplers(FieldReader& fields, SamplingParams& sampling) {
  struct Sampler {
    std::string_view name, other;
    char letter;
  };
  enum Place { kTopK, kTopP, kMinP, kTypicalP, kTemperature, kPenalties, kPlaces };
  constexpr std::array<Sampler, kPlaces> kSamplers = {{{"top_k", "top-k", 'k'},
                                                       {"top_p", "top-p", 'p'},
                                                       {"min_p", "min-p", 'm'},
                                                       {"typ_p", "typical_p", 'y'},
                                                       {"temperature", "temp", 't'},
                                                       {"penalties", "penalties", 'e'}}};
  std::array<bool, kPlaces> used{};
  const boost::json::value* listed = fields.raw("samplers", {"array", "string"});
  if (listed == nullptr) return;
  if (const auto* letters = listed->if_string()) {
    for (std::size_t i = 0; i < kPlaces; ++i)
      used[i] = std::string_view(*letters).find(kSamplers[i].letter) != std::string_view::npos;
  } else if (const boost::json::array* names = fields.array("samplers", kMaxSamplers)) {
    for (const boost::json::value& name : *names) {
      if (!name.is_string()) return fields.fail("samplers", "must be a list of names");
      for (std::size_t i = 0; i < kPlaces; ++i)
        if (name.as_string() == kSamplers[i].name || name.as_string() == kSamplers[i].other) used[i] = true;
    }
  }
  if (!used[kTopK]) sampling.top_k = SamplingParams{}.top_k;
  if (!used[kTopP]) sampling.top_p = SamplingParams{}.top_p;
  if (!used[kMinP]) sampling.min_p = SamplingParams{}.min_p;
  if (!used[kTypicalP]) sampling.typical_p = SamplingParams{}.typical_p;
  // Greedy sampling stays greedy.
  if (!used[kTemperature] && sampling.temperature > 0) sampling.temperature = 1;
  if (!used[kPenalties]) {
    sampling.repetition_penalty = 1;
    sampling.presence_penalty = sampling.frequency_penalty = 0;
  }
}

void read_penalty_window(FieldReader& fields, SamplingParams& sampling, Warnings& warnings) {
  const auto window = fields.integer("repeat_last_n", -1, std::numeric_limits<std::int32_t>::max());
  const bool active =
      sampling.repetition_penalty != 1 || sampling.presence_penalty != 0 || sampling.frequency_penalty != 0;
  if (!window || !active) return;
  if (*window == 0) {
    sampling.repetition_penalty = 1;
    sampling.presence_penalty = sampling.frequency_penalty = 0;
  } else if (*window > 0) {
    warnings.add(fields.path_of("repeat_last_n"), "penalties count all tokens, not the last ones alone");
  }
}

void warn_of_bounds(FieldReader& fields, Warnings& warnings) {
  struct Bound {
    std::string_view name, problem;
    std::int64_t off;
  };
  for (const Bound& bound : {Bound{"min_keep", "filters keep one token at least", 1},
                             Bound{"n_indent", "lines of less indentation do not end the answer", 0},
                             Bound{"t_max_predict_ms", "the answer's time has no bound but 'timeout'", 0}})
    if (fields.integer(bound.name, -1, std::numeric_limits<std::int64_t>::max()).value_or(0) > bound.off)
      warnings.add(fields.path_of(bound.name), bound.problem);
}

}  // namespace

void read_peer_sampling(FieldReader& fields, SamplingParams& sampling, Warnings& warnings) {
  refuse_samplers(fields);
  constexpr double kAnyAbove = 1e9;  // off from 1 on
  for (const std::string_view name : {"typ_p", "typical_p"})
    if (const auto mass = fields.number(name, 0, kAnyAbove))
      sampling.typical_p = static_cast<float>(std::min(*mass, 1.0));
  read_samplers(fields, sampling);
  read_penalty_window(fields, sampling, warnings);
  warn_of_bounds(fields, warnings);
}

}  // namespace pagoda
