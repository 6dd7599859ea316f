#include "engine/request_intake.h"

#include "base/random.h"
#include "base/strings.h"
#include "engine/client.h"
#include "scheduler/group_ops.h"

namespace pagoda {

RequestIntake::RequestIntake(const EngineConfig& config, const EngineParts& parts, const Clock& clock,
                             RequestTable& requests, SequenceIds& ids)
    : config_(config), parts_(parts), clock_(clock), requests_(requests), ids_(ids) {}

Status RequestIntake::validate(const Request& request) const {
  if (request.work.pools() != parts_.runner->pools()) {
    return invalid_argument(request.work.pools() ? "This model generates text and returns no vectors."
                                                 : "This model returns vectors and does not generate text.")
        .with_param("model");
  }
  if (parts_.poison != nullptr && parts_.poison->refuses(request))
    return invalid_argument(
               "The engine failed while it served this request before; it is refused for some time.")
        .with_reason("poison_request");
  if (request.data_parallel_rank) PAGODA_RETURN_IF_ERROR(check_rank(*request.data_parallel_rank, 1));
  if (request.weight < 1) return invalid_argument("A weight must be at least 1.").with_param("weight");
  const SamplingParams& sampling = request.sampling;
  if (request.work.pools() &&
      (sampling.max_tokens != 0 || sampling.width() != 1 || sampling.use_beam_search || request.constraint))
    return invalid_argument("A request for a vector cannot ask for tokens.").with_param("max_tokens");
  PAGODA_RETURN_IF_ERROR(check_decoding(sampling, config_.vocab_size));
  if (request.constraint != nullptr && config_.vocab_size <= 0)
    return unimplemented("Structured output needs a vocabulary of known size.");
  PAGODA_RETURN_IF_ERROR(check_tokens(request));
  return parts_.scheduler->validate(request);
}

Status RequestIntake::check_tokens(const Request& request) const {
  if (config_.vocab_size <= 0) return ok_status();
  for (const TokenId token : request.prompt_token_ids) {
    if (token < 0 || token >= config_.vocab_size) {
      return invalid_argument(concat("Token id ", token, " is outside the vocabulary, which has ",
                                     config_.vocab_size, " entries."))
          .with_param("prompt");
    }
  }
  return ok_status();
}

std::unique_ptr<RequestState> RequestIntake::make_state(Request request, std::shared_ptr<OutputSink> sink) {
  auto state = std::make_unique<RequestState>();
  SequenceGroup& group = state->group;
  if (parts_.poison != nullptr) state->digest = digest_of(request);
  group.request = std::move(request);
  state->times.arrival = group.request.arrival_time != 0 ? group.request.arrival_time : clock_.now();
  state->sink = std::move(sink);
  group.seed =
      group.sampling().seed ? *group.sampling().seed : random_bits(config_.seed, 0, ++num_drawn_seeds_);
  group.rotation = config_.rotation.rotation_of(max_tokens_of(group.request, config_.max_model_len));
  // The first token has no log-probability.
  if (group.wants_prompt_logprobs()) group.prompt_logprobs.emplace_back();
  auto sequence = std::make_unique<Sequence>();
  sequence->id = ids_.next();
  sequence->tokens = group.request.prompt_token_ids;
  sequence->num_prompt_tokens = sequence->num_tokens();
  group.sequences.push_back(std::move(sequence));
  state->strategy = make_strategy(group.request, config_.max_model_len);
  state->strategy->start(group);
  if (group.request.constraint != nullptr)
    state->constraints =
        std::make_unique<ConstraintSet>(*group.request.constraint, group.sequences.front()->id);
  return state;
}

void RequestIntake::start(Request request, std::shared_ptr<OutputSink> sink, std::string prefix_name) {
  std::unique_ptr<RequestState> state = make_state(std::move(request), std::move(sink));
  state->prefix_name = std::move(prefix_name);
  parts_.scheduler->add(requests_.add(std::move(state)).group);
}

}  // namespace pagoda
