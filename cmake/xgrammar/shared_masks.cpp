// XgrammarCompiler: XGrammar's compiler (this file replaces its grammar_compiler.cc) with another definition
// of equal rules. XGrammar caches masks by a hash for which a client can craft collisions: a part of it is
// cut to 32 bits, and it ignores how often a repeated rule occurs. A grammar could then get the masks of
// another. Here the name of a rule is a keyed hash (SipHash-2-4, with a key drawn at start) of everything
// that its masks depend on: its automaton and those of all rules reachable from it, in an unambiguous
// encoding.
#include <sys/random.h>

#include <array>
#include <optional>
#include <random>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "grammar_functor.h"
#include "grammar_impl.h"

namespace pagoda::rule_names {
namespace {

constexpr std::size_t kMaxEdges = 2'000;               // for a shared rule and all rules reachable from it
constexpr std::size_t kMaxEdgesOfGrammar = 1'000'000;  // edges visited for all rules of a grammar

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

// True if the matcher treats the rule without special cases, so that its masks can be shared.
bool is_plain(const Grammar& grammar, std::int32_t rule_id) {
  const auto& rule = grammar->GetRule(rule_id);
  const ExprType body = grammar->GetGrammarExpr(rule.body_expr_id).type;
  return grammar->per_rule_fsms[rule_id].has_value() && !rule.is_lazy && rule.max_tokens < 0 &&
         rule.max_chars < 0 && rule.capture_name.empty() && !rule.temperature.has_value() &&
         body != ExprType::kTagDispatch && body != ExprType::kTokenTagDispatch;
}

// Names the rules of a grammar. A rule is encoded as its automaton: its states in the order visited, and each
// rule it refers to by name. A recursive rule is encoded together with the other rules of its cycle, each by
// its number in the order visited. So each rule is encoded once, except in cycles.
class Names {
 public:
  explicit Names(Grammar& grammar)
      : grammar_(*grammar.ImplPtr()),
        rules_(static_cast<std::size_t>(grammar->NumRules())),
        state_numbers_(static_cast<std::size_t>(grammar->complete_fsm.NumStates()), -1) {
    for (std::int32_t id = 0; id < grammar->NumRules(); ++id) write(grammar, id);
    find_circles();
  }

 private:
  struct Rule {
    bool shared = false;
    std::size_t edges = 0;
    std::vector<std::int64_t> words;                           // with space for two words per reference
    std::vector<std::pair<std::size_t, std::int32_t>> refers;  // index in `words`, and the rule there
    // Tarjan's algorithm: order visited, least order reachable, and whether the rule is on the stack.
    std::int32_t order = -1, least = 0, circle = -1;
    bool open = false;
    std::int32_t met_by = -1, number = 0;  // number in the traversal that began at met_by
  };
  enum : std::int64_t { kByName, kByNumber };

  void write(const Grammar& grammar, std::int32_t id) {
    Rule& rule = rules_[static_cast<std::size_t>(id)];
    if (!is_plain(grammar, id)) return;
    const auto& fsm = grammar_.per_rule_fsms[id]->GetFsm();
    std::vector<std::int32_t> order;
    const auto number = [&](std::int32_t state) {
      std::int32_t& known = state_numbers_[static_cast<std::size_t>(state)];
      if (known < 0) {
        known = static_cast<std::int32_t>(order.size());
        order.push_back(state);
      }
      return known;
    };
    const auto refer = [&](std::int32_t to) {
      rule.refers.emplace_back(rule.words.size(), to);
      rule.words.insert(rule.words.end(), {0, 0});
    };
    bool shared = true;
    (void)number(fsm.GetStart());
    for (std::size_t i = 0; i < order.size() && shared; ++i) {
      const auto& all = fsm.GetFsm().GetEdges(order[i]);
      const auto count = static_cast<std::size_t>(std::distance(all.begin(), all.end()));
      rule.edges += count + 1;
      if (rule.edges > kMaxEdges || budget_ < count + 1) shared = false;
      if (!shared) break;
      budget_ -= count + 1;
      rule.words.insert(rule.words.end(),
                        {fsm.IsEndState(order[i]) ? 1 : 0, static_cast<std::int64_t>(count)});
      for (const auto& edge : all) {
        if (edge.IsToken() || edge.IsExcludeToken()) shared = false;
        rule.words.push_back(edge.min);
        if (edge.IsRuleRef()) {
          refer(edge.GetRefRuleId());
        } else if (edge.IsRepeatRef()) {
          const auto repeat = fsm.GetFsm().GetRepeatEdgeInfo(edge.GetAuxIndex());
          refer(repeat.RuleId());
          rule.words.insert(rule.words.end(), {repeat.Lower(), repeat.Upper()});
        } else {
          rule.words.push_back(edge.max);
        }
        rule.words.push_back(number(edge.target));
      }
    }
    rule.words.push_back(-1000);  // end of the rule; no state or edge begins with this word
    rule.shared = shared;
    auto& numbers = grammar_.per_rule_fsm_new_state_ids[static_cast<std::size_t>(id)];
    numbers.clear();
    for (const std::int32_t state : order) {
      numbers.emplace_back(state, state_numbers_[static_cast<std::size_t>(state)]);
      state_numbers_[static_cast<std::size_t>(state)] = -1;
    }
    std::sort(numbers.begin(), numbers.end());
  }

  // Tarjan (1972), without recursion. Cycles are found in an order in which all rules they refer to have
  // names.
  void find_circles() {
    struct Step {
      std::int32_t rule;
      std::size_t next;
    };
    std::vector<Step> path;
    std::vector<std::int32_t> stack;
    std::int32_t met = 0;
    const auto enter = [&](std::int32_t id) {
      Rule& rule = rules_[static_cast<std::size_t>(id)];
      rule.order = rule.least = met++;
      rule.open = true;
      stack.push_back(id);
      path.push_back({id, 0});
    };
    for (std::int32_t first = 0; first < static_cast<std::int32_t>(rules_.size()); ++first) {
      if (rules_[static_cast<std::size_t>(first)].order >= 0) continue;
      enter(first);
      while (!path.empty()) {
        Step& step = path.back();
        Rule& rule = rules_[static_cast<std::size_t>(step.rule)];
        if (step.next < rule.refers.size()) {
          const std::int32_t to = rule.refers[step.next++].second;
          const Rule& other = rules_[static_cast<std::size_t>(to)];
          if (other.order < 0)
            enter(to);
          else if (other.open)
            rule.least = std::min(rule.least, other.order);
          continue;
        }
        const std::int32_t done = step.rule;
        path.pop_back();
        if (!path.empty()) {
          Rule& before = rules_[static_cast<std::size_t>(path.back().rule)];
          before.least = std::min(before.least, rule.least);
        }
        if (rule.least != rule.order) continue;
        std::vector<std::int32_t> circle;
        do {
          circle.push_back(stack.back());
          stack.pop_back();
        } while (circle.back() != done);
        name(circle);
      }
    }
  }

  void name(const std::vector<std::int32_t>& circle) {
    for (const std::int32_t id : circle) {
      rules_[static_cast<std::size_t>(id)].open = false;
      rules_[static_cast<std::size_t>(id)].circle = circle.front();
    }
    for (const std::int32_t id : circle) name_one(id, circle.front());
  }
  void name_one(std::int32_t id, std::int32_t circle) {
    std::vector<std::int32_t> met = {id};
    rules_[static_cast<std::size_t>(id)].met_by = id;
    rules_[static_cast<std::size_t>(id)].number = 0;
    std::size_t edges = 0;
    words_.clear();
    for (std::size_t i = 0; i < met.size(); ++i) {
      const Rule& rule = rules_[static_cast<std::size_t>(met[i])];
      edges += rule.edges;
      if (!rule.shared || edges > kMaxEdges || (i > 0 && budget_ < rule.edges)) return;
      if (i > 0) budget_ -= rule.edges;
      const std::size_t begin = words_.size();
      words_.insert(words_.end(), rule.words.begin(), rule.words.end());
      for (const auto& [at, to] : rule.refers) {
        std::int64_t* const place = words_.data() + begin + at;
        if (rules_[static_cast<std::size_t>(to)].circle != circle) {
          const auto& known = grammar_.per_rule_fsm_hashes[static_cast<std::size_t>(to)];
          if (!known.has_value()) return;
          place[0] = kByName;
          place[1] = static_cast<std::int64_t>(*known);
          continue;
        }
        Rule& other = rules_[static_cast<std::size_t>(to)];
        if (std::exchange(other.met_by, id) != id) {
          other.number = static_cast<std::int32_t>(met.size());
          met.push_back(to);
        }
        place[0] = kByNumber;
        place[1] = other.number;
      }
    }
    grammar_.per_rule_fsm_hashes[static_cast<std::size_t>(id)] = keyed_hash(words_);
  }

  Grammar::Impl& grammar_;
  std::vector<Rule> rules_;
  std::vector<std::int32_t> state_numbers_;  // states of the rule being encoded; -1: not visited
  std::vector<std::int64_t> words_;
  std::size_t budget_ = kMaxEdgesOfGrammar;
};

}  // namespace

// Replaces xgrammar::GrammarFSMHasher.
struct Hasher {
  static void Apply(Grammar* grammar) {
    auto& inside = *grammar->ImplPtr();
    const auto count = static_cast<std::size_t>(inside.NumRules());
    inside.per_rule_fsm_hashes.assign(count, std::nullopt);
    inside.per_rule_fsm_new_state_ids.assign(count, {});
    Names names(*grammar);
  }

  // Returns a hash of the sequence that must follow a rule. nullopt if there is none or it has no hash; the
  // masks of the rule are then cached without it.
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

// Lookups in the mask cache and matches against the sequence that must follow a rule, shared by all positions
// of a rule.
class KnownMasks {
 public:
  // Result of matching the rest of a token against the sequence that must follow a rule.
  enum class Outcome : char { unknown, no, all, completes };
  struct Suffixes {
    static constexpr std::size_t kMost = 20'000;
    std::unordered_map<std::string_view, Outcome> outcomes;
    std::array<Outcome, 256> first{};  // result for the first byte alone, which decides most cases
    template <class Ask>
    Outcome of(std::string_view suffix, const Ask& ask) {
      if (!suffix.empty()) {
        Outcome& byte = first[static_cast<unsigned char>(suffix[0])];
        if (byte == Outcome::unknown) byte = ask(suffix.substr(0, 1));
        if (byte != Outcome::all || suffix.size() == 1) return byte;
      }
      if (const auto known = outcomes.find(suffix); known != outcomes.end()) return known->second;
      const Outcome outcome = ask(suffix);
      if (outcomes.size() < kMost) outcomes.emplace(suffix, outcome);
      return outcome;
    }
  };

  KnownMasks(const Grammar& grammar, std::optional<xgrammar::RuleLevelCache>& cache)
      : grammar_(grammar), cache_(cache) {
    for (std::int32_t i = 0; i < grammar->NumRules(); ++i) {
      const auto& rule = grammar->GetRule(i);
      if (rule.max_chars >= 0 || rule.max_tokens >= 0 || !rule.capture_name.empty() ||
          grammar->GetSuffixStopInfo(i) != nullptr)
        plain_ = false;
    }
  }

  // True if the grammar has no budgets and no captures, so that a parser has no memory besides its states.
  bool plain() const { return plain_; }

  // The same lookup as XGrammar's, without creating a parser at that position.
  std::optional<SharedMask> find(const xgrammar::ParserState& state, bool is_root_rule) {
    const auto& name = grammar_->per_rule_fsm_hashes[state.rule_id];
    if (!plain_ || !cache_.has_value() || !name.has_value()) return std::nullopt;
    enter(state.rule_id);
    const auto& numbers = grammar_->per_rule_fsm_new_state_ids[state.rule_id];
    const auto number =
        std::lower_bound(numbers.begin(), numbers.end(), std::pair(state.element_id, std::int32_t{-1}));
    if (number == numbers.end() || number->first != state.element_id) return std::nullopt;
    const auto& fsm = *grammar_->per_rule_fsms[state.rule_id];
    const auto& rule = grammar_->GetRule(state.rule_id);
    if (what_follows_.has_value())
      return cache_->GetCache(xgrammar::HashCombine(*name, *what_follows_, rule.is_exact_lookahead),
                              number->second, fsm.GetNodeNum(), fsm.GetEdgeNum());
    if (rule.lookahead_assertion_id != -1 || is_root_rule) return std::nullopt;
    return cache_->GetCache(*name, number->second, fsm.GetNodeNum(), fsm.GetEdgeNum());
  }

  // Returns null if results must not be reused.
  Suffixes* suffixes(std::int32_t rule_id) {
    enter(rule_id);
    return plain_ ? &suffixes_ : nullptr;
  }

 private:
  void enter(std::int32_t rule_id) {
    if (std::exchange(rule_id_, rule_id) == rule_id) return;
    suffixes_.outcomes.clear();
    suffixes_.first.fill(Outcome::unknown);
    what_follows_ = Hasher::HashSequence(grammar_, grammar_->GetRule(rule_id).lookahead_assertion_id);
  }

  const Grammar& grammar_;
  std::optional<xgrammar::RuleLevelCache>& cache_;
  bool plain_ = true;
  std::int32_t rule_id_ = -1;
  std::optional<std::uint64_t> what_follows_;
  Suffixes suffixes_;
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
  constexpr std::int64_t kPlace = 96;  // bytes per mask in the grammar's own tables
  std::int64_t bytes = 0;
  for (const auto& [state, mask] : grammar->adaptive_token_mask_cache)
    bytes += static_cast<std::int64_t>(MemorySize(mask)) - kPlace;
  return bytes;
}
std::int64_t xgrammar_live_shared_bytes() { return SharedMask::live_bytes(); }

picojson::value SerializeJSONValue(const SharedMask& mask) {
  return xgrammar::AutoSerializeJSONValue(static_cast<const xgrammar::AdaptiveTokenMask&>(mask));
}
std::optional<xgrammar::SerializationError> DeserializeJSONValue(SharedMask* mask,
                                                                 const picojson::value& value,
                                                                 const std::string& type_name) {
  xgrammar::AdaptiveTokenMask read;
  auto error = xgrammar::AutoDeserializeJSONValue(&read, value, type_name);
  if (!error) *mask = SharedMask(std::move(read));
  return error;
}

}  // namespace pagoda
