#pragma once
// Render: one run of a template over one context: variables, limits, and the walk over the syntax tree
// (execute.cc for statements, evaluate.cc for expressions, attributes.cc for `.` and `[]`).
// Threads: none; lives on the stack of ChatTemplate::render.
#include <boost/json/object.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/ast.h"
#include "jinja/string_builder.h"
#include "jinja/template_options.h"
#include "jinja/value.h"

namespace pagoda::jinja {

// The variables of one running function: the template, a macro call, a recursive loop. Macros and loops keep
// the activation in which they were created; since both are Mutable, this creates no lasting cycle.
struct Activation {
  std::vector<Value> slots;
  std::shared_ptr<Activation> parent;
};
using ActivationPtr = std::shared_ptr<Activation>;

struct Macro final : Mutable {
  const MacroCode* code = nullptr;
  ActivationPtr definer;
  void clear() override { definer.reset(); }
};

struct LoopContext final : Mutable {
  std::shared_ptr<Iterator> iterator;
  std::optional<std::int64_t> length;  // length of the iterable, if it has one; set on first use
  Value iterable;
  std::int64_t index0 = -1;
  std::int64_t depth0 = 0;
  Value before = Value::missing(), current = Value::missing(), after = Value::missing();
  bool peeked = false;  // `after` holds the next item, or missing at the end
  Value last_changed = Value::missing();
  const ForStatement* recursion = nullptr;  // null: not recursive
  ActivationPtr definer;

  bool advance(Render& render, Value& out);
  const Value& peek(Render& render);
  std::int64_t count(Render& render);
  void clear() override;
};

class Render {
 public:
  Render(const TemplateCode& code, const TemplateOptions& options);
  ~Render();
  Render(const Render&) = delete;
  Render& operator=(const Render&) = delete;

  RenderedText run(const boost::json::object& context);  // throws TemplateError

  const TemplateOptions& options() const { return options_; }

  // The limits: every loop in the interpreter and in the filters counts its rounds here, and everything that
  // creates or scans text counts its bytes. This also bounds the memory of a render.
  void step(std::int64_t count = 1) {
    steps_left_ -= count;
    if (steps_left_ < look_at_steps_) look();
  }
  void work(std::size_t num_bytes) {
    step();
    charge(num_bytes);
  }
  void charge(std::size_t num_bytes) {  // for work outside a loop's rounds
    bytes_left_ -= static_cast<std::int64_t>(num_bytes);
    if (bytes_left_ < look_at_bytes_) look();
  }
  void charge(const Arguments& arguments);        // charges a call: lazy filters keep a copy of its arguments
  void check_size(std::size_t num_bytes) const;   // checks a string about to be made
  void check_count(std::size_t num_items) const;  // checks a list about to be made

  // Access to dict entries; charges the text of the key, which may be of any size. type_error if the key is
  // not hashable.
  const Value* find(const Dict& dict, const Value& key) {
    charge(key_bytes(key));
    return dict.find(key);
  }
  void set(Dict& dict, const Value& key, Value value) {
    charge(key_bytes(key));
    dict.set(key, std::move(value));
  }

  // Calls made by templates, and by filters on their behalf.
  Value call(const Value& callee, const Arguments& arguments);
  Value call_filter(std::string_view name, const Value& value, const Arguments& arguments);
  bool call_test(std::string_view name, const Value& value, const Arguments& arguments);
  Value attribute(const Value& object, const Value& name);  // object.name
  Value item(const Value& object, const Value& key);        // object[key]
  // Python's getattr(object, name): methods and fields, not items.
  std::optional<Value> python_attribute(const Value& object, std::string_view name);

  // One level of potential recursion: statements, expressions, filters, and iterators that read other
  // iterators (an iterator can reach itself through a namespace).
  class Depth {
   public:
    explicit Depth(Render& render) : render_(render) {
      if (++render_.depth_ > kDepthFactor * render_.options_.limits.max_depth) render_.too_deep();
    }
    ~Depth() { --render_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Render& render_;
  };

  template <class T>
  std::shared_ptr<T> make_mutable() {
    step();
    auto object = std::make_shared<T>();
    mutables_.push_back(object);
    return object;
  }

 private:
  friend class LoopFilter;
  friend struct LoopContext;
  enum class Flow { normal, break_, continue_ };
  static constexpr std::int64_t kWorkFactor = 128;  // bytes of text handled per byte of output allowed
  static constexpr int kDepthFactor = 20;           // levels of the syntax tree per level of max_depth

  void look();  // fails if a limit is reached
  [[noreturn]] void too_deep() const;

  // execute.cc
  ActivationPtr new_activation(int num_slots, ActivationPtr parent);
  static Value& slot(const ActivationPtr& activation, VarRef ref);
  Value resolve(const std::string& name) const;
  void enter(const FrameCode& frame, const ActivationPtr& activation);
  static void leave(const FrameCode& frame, const ActivationPtr& activation);
  void assign(const Target& target, const Value& value, const ActivationPtr& activation);
  void check_namespaces(const Target& target, const ActivationPtr& activation);
  void export_target(const Target& target, const ActivationPtr& activation);
  Flow execute(const Body& body, const ActivationPtr& activation, StringBuilder& out);
  Flow execute(const Statement& statement, const ActivationPtr& activation, StringBuilder& out);
  void output(const OutputStatement& node, const ActivationPtr& activation, StringBuilder& out);
  Flow if_statement(const IfStatement& node, const ActivationPtr& activation, StringBuilder& out);
  Flow for_statement(const ForStatement& node, const ActivationPtr& activation, StringBuilder& out);
  Flow loop(const ForStatement& node, const ActivationPtr& activation, const ActivationPtr& definer,
            const Value& iterable, std::int64_t depth0, StringBuilder& out);
  void set_statement(const SetStatement& node, const ActivationPtr& activation);
  Flow set_block(const SetBlockStatement& node, const ActivationPtr& activation);
  void macro_statement(const MacroStatement& node, const ActivationPtr& activation);
  void call_block(const CallBlockStatement& node, const ActivationPtr& activation, StringBuilder& out);
  Flow filter_block(const FilterBlockStatement& node, const ActivationPtr& activation, StringBuilder& out);
  Flow with_statement(const WithStatement& node, const ActivationPtr& activation, StringBuilder& out);
  void block(const BlockStatement& node, StringBuilder& out);
  Value make_macro(const MacroCode& code, const ActivationPtr& activation);
  Value call_macro(const Macro& macro, const Arguments& arguments);
  Value call_loop(LoopContext& context, const Arguments& arguments);
  void append(StringBuilder& out, const Value& value);

  // evaluate.cc
  Value evaluate(const Expr& node, const ActivationPtr& activation);
  Value evaluate_binary(const BinaryExpr& node, const ActivationPtr& activation);
  Value evaluate_concat(const SequenceExpr& node, const ActivationPtr& activation);
  Value evaluate_compare(const CompareExpr& node, const ActivationPtr& activation);
  Value evaluate_slice(const SliceExpr& node, const ActivationPtr& activation);
  Value evaluate_dict(const DictExpr& node, const ActivationPtr& activation);
  Value evaluate_call(const CallExpr& node, const ActivationPtr& activation, const Value* caller);
  Value evaluate_filter(const FilterExpr& node, const Value& value, const ActivationPtr& activation);
  Value evaluate_filters(const FilterExpr& last, const Value& value, const ActivationPtr& activation);
  Value evaluate_test(const FilterExpr& node, const ActivationPtr& activation);
  std::vector<Value> evaluate_all(const std::vector<ExprPtr>& nodes, const ActivationPtr& activation);
  Arguments evaluate_arguments(const CallArguments& nodes, const ActivationPtr& activation);

  const TemplateCode& code_;
  const TemplateOptions& options_;
  std::int64_t steps_left_;
  std::int64_t bytes_left_;
  std::int64_t look_at_steps_, look_at_bytes_;  // when fewer are left, the clock is checked
  TimeNs deadline_ = 0;                         // by options_.clock
  int depth_ = 0;
  int calls_ = 0;
  std::map<std::string, Value, std::less<>> context_;   // the caller's variables, which override the globals
  std::map<std::string, Value, std::less<>> exported_;  // top-level assignments, for blocks
  std::vector<std::shared_ptr<Mutable>> mutables_;      // owned until the end; see value.h
};

// Iterates over a value's items. type_error if it is not iterable.
std::shared_ptr<Iterator> iterate(Render& render, const Value& value);
std::vector<Value> to_vector(Render& render, const Value& value);
std::optional<std::int64_t> length_of(Render& render, const Value& value);  // nullopt if it has no length
[[noreturn]] void fail_undefined(const Value& undefined);

}  // namespace pagoda::jinja
