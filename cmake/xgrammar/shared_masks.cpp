// XgrammarCompiler: XGrammar's compiler (this file takes the place of its grammar_compiler.cc) with another
// idea of which rules are the same. XGrammar keeps masks by a hash that whoever sends grammars can aim at, of
// which a part is cut to 32 bits, and which leaves out how often a repeated rule comes: a grammar could get
// the masks of another. Here a rule's name is a keyed hash (SipHash-2-4, the key drawn at the start) over all
// that its masks depend on: its automaton and those of all rules it leads to, written without ambiguity.
#include <sys/random.h>

#include <array>
#include <deque>
#include <random>
#include <unordered_map>

#include "grammar_functor.h"
#include "grammar_impl.h"

namespace pagoda::rule_names {
namespace {

constexpr std::size_t kMaxEdges = 2'000;               // of a rule and those that it leads to, to be shared
constexpr std::size_t kMaxEdgesOfGrammar = 1'000'000;  // looked at, over all rules

std::array<std::uint64_t, 2> draw_key() {
  std::array<std::uint64_t, 2> key{};
  if (getrandom(key.data(), sizeof key, 0) != sizeof key) {
    std::random_device device;
    for (std::uint64_t& half : key) half = (std::uint64_t{device()} << 32) | device();
  }
  return key;
}

// SipHash-2-4 of a list of words (Aumasson and Bernstein, 2012).
std::uint64_t keyed_hash(const std::vector<std::int64_t>& words) {
  static const std::array<std::uint64_t, 2> key = draw_key();
  std::array<std::uint64_t, 4> v{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
                                 key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
  const auto rotate = [](std::uint64_t x, int by) { return (x << by) | (x >> (64 - by)); };
  const auto round = [&] {
    v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
    v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
  };
  const auto take = [&](std::uint64_t word) {
    v[3] ^= word;
    round(), round();
    v[0] ^= word;
  };
  for (const std::int64_t word : words) take(static_cast<std::uint64_t>(word));
  take(static_cast<std::uint64_t>(words.size() * 8) << 56);
  v[2] ^= 0xff;
  for (int i = 0; i < 4; ++i) round();
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

using Grammar = xgrammar::Grammar;
using ExprType = Grammar::Impl::GrammarExprType;

// What a rule may not have to be shared: what the matcher treats apart.
bool is_plain(const Grammar& grammar, std::int32_t rule_id) {
  const auto& rule = grammar->GetRule(rule_id);
  const ExprType body = grammar->GetGrammarExpr(rule.body_expr_id).type;
  return grammar->per_rule_fsms[rule_id].has_value() && !rule.is_lazy && rule.max_tokens < 0 &&
         rule.max_chars < 0 && rule.capture_name.empty() && !rule.temperature.has_value() &&
         body != ExprType::kTagDispatch && body != ExprType::kTokenTagDispatch;
}

// Writes a rule and all that it leads to: each rule by its number in the order met, each state of it
// likewise.
class Walk {
 public:
  explicit Walk(const Grammar& grammar) : grammar_(grammar) {}

  // Empty: not to be shared. `states`: XGrammar's number of each of the rule's states, and ours.
  std::vector<std::int64_t> write(std::int32_t rule_id, std::size_t& budget,
                                  std::vector<std::pair<std::int32_t, std::int32_t>>& states) {
    rules_.clear(), number_.clear(), words_.clear();
    std::size_t edges = 0;
    (void)number_of(rule_id);
    for (std::size_t i = 0; i < rules_.size(); ++i)
      if (!is_plain(grammar_, rules_[i]) || !write_rule(rules_[i], edges, budget, i == 0 ? &states : nullptr))
        return {};
    return std::move(words_);
  }

 private:
  std::int64_t number_of(std::int32_t rule_id) {
    const auto [found, fresh] = number_.try_emplace(rule_id, static_cast<std::int64_t>(rules_.size()));
    if (fresh) rules_.push_back(rule_id);
    return found->second;
  }
  bool write_rule(std::int32_t rule_id, std::size_t& edges, std::size_t& budget,
                  std::vector<std::pair<std::int32_t, std::int32_t>>* states) {
    const auto& fsm = grammar_->per_rule_fsms[rule_id]->GetFsm();
    std::unordered_map<std::int32_t, std::int32_t> own;
    std::vector<std::int32_t> order;
    const auto state_number = [&](std::int32_t state) {
      const auto [found, fresh] = own.try_emplace(state, static_cast<std::int32_t>(order.size()));
      if (fresh) order.push_back(state);
      return found->second;
    };
    (void)state_number(fsm.GetStart());
    for (std::size_t i = 0; i < order.size(); ++i) {
      const std::int32_t state = order[i];
      const auto& all = fsm.GetFsm().GetEdges(state);
      const auto count = static_cast<std::size_t>(std::distance(all.begin(), all.end()));
      edges += count + 1;
      if (edges > kMaxEdges || budget < count + 1) return false;
      budget -= count + 1;
      words_.insert(words_.end(), {fsm.IsEndState(state) ? 1 : 0, static_cast<std::int64_t>(count)});
      for (const auto& edge : all) {
        if (edge.IsToken() || edge.IsExcludeToken()) return false;
        words_.push_back(edge.min);
        if (edge.IsRuleRef()) {
          words_.push_back(number_of(edge.GetRefRuleId()));
        } else if (edge.IsRepeatRef()) {
          const auto repeat = fsm.GetFsm().GetRepeatEdgeInfo(edge.GetAuxIndex());
          words_.insert(words_.end(), {number_of(repeat.RuleId()), repeat.Lower(), repeat.Upper()});
        } else {
          words_.push_back(edge.max);
        }
        words_.push_back(state_number(edge.target));
      }
    }
    if (states != nullptr) states->assign(own.begin(), own.end());
    words_.push_back(-1000);  // no state and no edge begins so: the rule ends
    return true;
  }

  const Grammar& grammar_;
  std::vector<std::int32_t> rules_;
  std::unordered_map<std::int32_t, std::int64_t> number_;
  std::vector<std::int64_t> words_;
};

}  // namespace

// In the place of xgrammar::GrammarFSMHasher.
struct Hasher {
  static void Apply(Grammar* grammar) {
    auto& inside = *grammar->ImplPtr();
    const std::int32_t count = inside.NumRules();
    inside.per_rule_fsm_hashes.assign(static_cast<std::size_t>(count), std::nullopt);
    inside.per_rule_fsm_new_state_ids.assign(static_cast<std::size_t>(count), {});
    std::size_t budget = kMaxEdgesOfGrammar;
    Walk walk(*grammar);
    for (std::int32_t rule = 0; rule < count; ++rule) {
      const std::vector<std::int64_t> words =
          walk.write(rule, budget, inside.per_rule_fsm_new_state_ids[rule]);
      if (!words.empty()) inside.per_rule_fsm_hashes[rule] = keyed_hash(words);
    }
  }

  // Of what must follow a rule; nothing: the masks of this rule are kept as they are without it.
  static std::optional<std::uint64_t> HashSequence(const Grammar& grammar, std::int32_t sequence) {
    if (sequence == -1) return std::nullopt;
    std::vector<std::int64_t> words;
    for (const std::int32_t id : grammar->GetGrammarExpr(sequence)) {
      const auto expr = grammar->GetGrammarExpr(id);
      words.insert(words.end(), {static_cast<std::int64_t>(expr.type), expr.size()});
      std::int32_t begin = 0;
      switch (expr.type) {
        case ExprType::kRuleRef:
        case ExprType::kRepeat: {
          const auto& rule = grammar->per_rule_fsm_hashes[expr[0]];
          if (!rule.has_value()) return std::nullopt;
          words.push_back(static_cast<std::int64_t>(*rule));
          begin = 1;
          break;
        }
        case ExprType::kByteString:
        case ExprType::kCharacterClass:
        case ExprType::kCharacterClassStar:
        case ExprType::kEmptyStr:
          break;
        default:
          return std::nullopt;
      }
      for (std::int32_t i = begin; i < expr.size(); ++i) words.push_back(expr[i]);
    }
    return keyed_hash(words);
  }
};

}  // namespace pagoda::rule_names

#define GrammarFSMHasher ::pagoda::rule_names::Hasher
#include "grammar_compiler.cc"
#undef GrammarFSMHasher

#include "inside.h"
#include "support/json_serializer.h"

namespace pagoda {

struct XgrammarCompiler::Rules {
  mutable xgrammar::GrammarCompilerSub compiler;
};

XgrammarCompiler::XgrammarCompiler(const xgrammar::TokenizerInfo& vocabulary, std::size_t shared_bytes)
    : rules_(new Rules{xgrammar::GrammarCompilerSub(vocabulary, 1, xgrammar::RuleLevelCache(shared_bytes))}) {
}
XgrammarCompiler::~XgrammarCompiler() = default;

xgrammar::CompiledGrammar XgrammarCompiler::json_schema(const std::string& schema,
                                                        int max_white_space) const {
  return rules_->compiler.CompileJSONSchema(schema, true, std::nullopt, std::nullopt, true, max_white_space,
                                            false);
}
xgrammar::CompiledGrammar XgrammarCompiler::regex(const std::string& regex) const {
  return rules_->compiler.CompileRegex(regex);
}
xgrammar::CompiledGrammar XgrammarCompiler::lark(const std::string& grammar) const {
  return rules_->compiler.CompileLark(grammar, {});
}
xgrammar::CompiledGrammar XgrammarCompiler::structural_tag(const std::string& tag) const {
  return rules_->compiler.CompileStructuralTag(tag);
}
xgrammar::CompiledGrammar XgrammarCompiler::ebnf(const std::string& grammar) const {
  return rules_->compiler.CompileGrammar(grammar, "root");
}

std::int64_t xgrammar_shareable_bytes(const xgrammar::CompiledGrammar& grammar) {
  std::int64_t bytes = 0;
  for (const auto& [state, mask] : grammar->adaptive_token_mask_cache)
    bytes += static_cast<std::int64_t>(mask.uncertain_indices.size() * sizeof(std::int32_t));
  return bytes;
}
std::int64_t xgrammar_live_shared_bytes() { return SharedIndices::live_bytes(); }

picojson::value SerializeJSONValue(const SharedIndices& indices) {
  return xgrammar::AutoSerializeJSONValue(static_cast<const SharedIndices::List&>(indices));
}
std::optional<xgrammar::SerializationError> DeserializeJSONValue(SharedIndices* indices,
                                                                 const picojson::value& value,
                                                                 const std::string& type_name) {
  SharedIndices::List list;
  auto error = xgrammar::AutoDeserializeJSONValue(&list, value, type_name);
  if (!error) *indices = SharedIndices(list);
  return error;
}

}  // namespace pagoda
