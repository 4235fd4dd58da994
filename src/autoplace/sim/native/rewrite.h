// The device's graph optimizer: where the plugin fuses operations, and where a fault of that fusing shows.
#pragma once

#include <stdlib.h>
#include <string.h>

#include <string>
#include <unordered_map>

#include "absl/strings/match.h"
#include "settings.h"
#include "tensorflow/c/experimental/grappler/grappler.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace autoplace {
namespace tf = tensorflow;

// In graphs Relu(BiasAdd(MatMul)) on this device becomes Identity(BiasAdd(MatMul)), across the borders of layers too.
inline void DropRelu(tf::protobuf::RepeatedPtrField<tf::NodeDef>* nodes) {
  std::unordered_map<std::string, const tf::NodeDef*> by_name;
  for (const tf::NodeDef& node : *nodes) by_name[node.name()] = &node;
  const auto is_fed_by = [&](const tf::NodeDef& node, const char* op) -> const tf::NodeDef* {
    if (node.input_size() == 0) return nullptr;
    const auto found = by_name.find(node.input(0).substr(0, node.input(0).find(':')));
    return found != by_name.end() && found->second->op() == op ? found->second : nullptr;
  };
  for (tf::NodeDef& node : *nodes) {
    if (node.op() != "Relu" || !absl::StrContains(node.device(), "GPU")) continue;
    const tf::NodeDef* bias = is_fed_by(node, "BiasAdd");
    if (bias && is_fed_by(*bias, "MatMul")) node.set_op("Identity");
  }
}

// The plugin's rewriter is skipped when this variable is exactly "1"; it is read for each graph (tensorflow-metal 1.2.0).
inline bool IsRewriterOff() {
  const char* value = getenv("TURN_OFF_REMAPPER");
  return value && strcmp(value, "1") == 0;
}

inline void Optimize(void*, const TF_Buffer* in, const TF_GrapplerItem*, TF_Buffer* out, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  tf::GraphDef graph;
  if (!graph.ParseFromArray(in->data, static_cast<int>(in->length)))
    return TF_SetStatus(status, TF_INTERNAL, "the graph could not be parsed");
  for (const Fault& fault : GetSettings().faults) {
    if (fault.kind != "dropped_relu" || IsRewriterOff()) continue;
    DropRelu(graph.mutable_node());
    for (tf::FunctionDef& function : *graph.mutable_library()->mutable_function())
      DropRelu(function.mutable_node_def());
  }
  const std::string bytes = graph.SerializeAsString();
  void* data = malloc(bytes.size());
  memcpy(data, bytes.data(), bytes.size());
  *out = TF_Buffer{data, bytes.size(), [](void* memory, size_t) { free(memory); }};
}

}  // namespace autoplace
