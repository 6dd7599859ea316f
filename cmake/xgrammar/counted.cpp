#include "counted.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>
#include <vector>

#include "compiled_grammar_impl.h"
#include "grammar_functor.h"
#include "grammar_impl.h"
#include "tokenizer_info_impl.h"
#include "work.h"

namespace pagoda {
namespace {

using ExprType = xgrammar::Grammar::Impl::GrammarExprType;

// Bytes of an expression that is parsed again per unit of work.h.
constexpr std::size_t kBytesOfUnit = 4;

// Returns the minimum of the repetition in a counted rule's lookahead, a count that is never reached; nullopt
// if the rule is not counted.
std::optional<std::int32_t> endless(const xgrammar::Grammar& grammar, std::int32_t rule) {
  if (rule < 0) return std::nullopt;
  const std::int32_t lookahead = grammar->GetRule(rule).lookahead_assertion_id;
  if (lookahead < 0) return std::nullopt;
  const auto sequence = grammar->GetGrammarExpr(lookahead);
  if (sequence.type != ExprType::kSequence || sequence.size() != 1) return std::nullopt;
  const auto repeat = grammar->GetGrammarExpr(sequence[0]);
  if (repeat.type != ExprType::kRepeat || repeat[0] != rule || repeat[1] < kEndless - 1) return std::nullopt;
  return repeat[1];
}

// Sets the lookahead by which endless() recognises a counted rule.
void repeats_itself(xgrammar::GrammarBuilder& builder, std::int32_t rule, std::int32_t least) {
  builder.UpdateLookaheadAssertion(rule, builder.AddSequence({builder.AddRepeat(rule, least, kEndless)}));
  builder.UpdateLookaheadExact(rule, true);
}

bool can_be_written(const std::string& expression) {
  static thread_local std::map<std::string, bool> known;
  const std::string key = (JsonStrings::within() ? "j" : "r") + expression;
  if (const auto found = known.find(key); found != known.end()) return found->second;
  auto built = xgrammar::GrammarFSMBuilder::Regex(expression, JsonStrings::within());
  bool can = false;
  if (built.IsOk()) {
    std::unordered_set<int> reachable;
    built.ValueRef().GetReachableStates(&reachable);
    can = std::any_of(reachable.begin(), reachable.end(),
                      [&](int state) { return built.ValueRef().IsEndState(state); });
  }
  if (known.size() >= 64 || key.size() > 4096) known.clear();
  known.emplace(key, can);
  return can;
}

}  // namespace

thread_local bool JsonStrings::within_ = false;
thread_local CountedRules* CountedRules::current_ = nullptr;

std::int32_t counted_rule(xgrammar::GrammarBuilder& builder, const std::string& expression, bool sealed) {
  spend(static_cast<std::int64_t>(1 + expression.size() / kBytesOfUnit));
  const bool json = JsonStrings::within();
  sealed = sealed && json;
  const std::string key = (json ? sealed ? "s" : "j" : "r") + expression;
  CountedRules* const made = CountedRules::current_;
  if (made != nullptr)
    if (const auto found = made->rules_.find(key); found != made->rules_.end()) return found->second;
  std::int32_t rule = -1;
  if (can_be_written(expression)) {
    rule = builder.AddRuleWithHint("counted", builder.AddRegex(expression, json));
    repeats_itself(builder, rule, sealed ? kEndless - 1 : kEndless);
  }
  if (made != nullptr) made->rules_.emplace(key, rule);
  return rule;
}

std::int32_t counted_characters(xgrammar::GrammarBuilder& builder, const std::string& name,
                                std::int32_t character, std::int32_t least, std::int32_t most) {
  const auto rule_of = [&](const char* kind, std::int32_t element) {
    return builder.AddRuleWithHint(name + kind, builder.AddChoices({builder.AddSequence({element})}));
  };
  const std::int32_t rule = rule_of("_counted", character);
  repeats_itself(builder, rule, kEndless);
  if (least > 0) return rule_of("_repeated", builder.AddRepeat(rule, least, most));
  // An empty alternative must be explicit: XGrammar does not infer from a repetition that a rule may be
  // empty.
  return builder.AddRuleWithHint(
      name + "_repeated",
      builder.AddChoices({builder.AddEmptyStr(), builder.AddSequence({builder.AddRepeat(rule, 1, most)})}));
}

bool is_counted(const xgrammar::Grammar& grammar, std::int32_t rule) {
  return endless(grammar, rule).has_value();
}

CountedPlace counted_place(
    const xgrammar::Grammar& grammar,
    const xgrammar::Compact2DArray<std::pair<std::int32_t, xgrammar::ParserState>>& rows,
    const xgrammar::ParserState& state) {
  CountedPlace place;
  const std::optional<std::int32_t> least = endless(grammar, state.rule_id);
  if (!least || state.rule_start_pos < 0) return place;
  place.sealed = *least < kEndless;
  std::int32_t most = 0;
  for (const auto& [rule, parent] : rows[state.rule_start_pos]) {
    if (rule != state.rule_id || parent.rule_id < 0) continue;
    const auto& fsm = *grammar->per_rule_fsms[parent.rule_id];
    for (const auto& edge : fsm.GetFsm().GetFsm().GetEdges(parent.element_id)) {
      if (!edge.IsRepeatRef()) continue;
      const auto repeat = grammar->complete_fsm.GetRepeatEdgeInfo(edge.GetAuxIndex());
      if (repeat.RuleId() != rule) continue;
      if (repeat.Upper() == kEndless) return {};
      most = std::max(most, repeat.Upper() - parent.repeat_count);
    }
  }
  // A repetition that has begun counts as one, although its first character has already been consumed.
  const bool begun = state.rule_start_pos + 1 != static_cast<std::int32_t>(rows.size());
  place.left = most - (begun ? 1 : 0);
  return place;
}

xgrammar::AdaptiveTokenMask cut_mask(const xgrammar::AdaptiveTokenMask& mask, CountedPlace place,
                                     const xgrammar::TokenizerInfo& vocabulary) {
  using Mask = xgrammar::AdaptiveTokenMask;
  const auto& tokens = vocabulary.GetSortedDecodedVocab();
  const auto& characters = vocabulary.ImplPtr()->GetTokenCharCounts();
  Mask cut;
  cut.store_type = Mask::StoreType::kAcceptedBitset;
  cut.accepted_bitset = xgrammar::DynamicBitset(vocabulary.GetVocabSize());
  std::vector<std::int32_t> longer;
  const auto take = [&](std::int32_t index) {
    if (characters[index] <= place.left)
      cut.accepted_bitset.Set(tokens[index].first);
    else if (!place.sealed)
      longer.push_back(index);
  };
  const auto count = static_cast<std::int32_t>(tokens.size());
  switch (mask.store_type) {
    case Mask::StoreType::kAccepted:
      for (const std::int32_t index : mask.accepted_indices) take(index);
      break;
    case Mask::StoreType::kAcceptedBitset:
      for (std::int32_t index = 0; index < count; ++index)
        if (mask.accepted_bitset[tokens[index].first]) take(index);
      break;
    case Mask::StoreType::kRejected: {
      std::vector<std::int32_t> others;
      std::set_union(mask.rejected_indices.begin(), mask.rejected_indices.end(),
                     mask.uncertain_indices.begin(), mask.uncertain_indices.end(),
                     std::back_inserter(others));
      auto other = others.begin();
      for (std::int32_t index = 0; index < count; ++index) {
        if (other != others.end() && *other == index)
          ++other;
        else
          take(index);
      }
      break;
    }
  }
  std::set_union(mask.uncertain_indices.begin(), mask.uncertain_indices.end(), longer.begin(), longer.end(),
                 std::back_inserter(cut.uncertain_indices));
  return cut;
}

}  // namespace pagoda
