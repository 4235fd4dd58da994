// The device's graph optimizer: where the plugin fuses operations, and where a fault of that fusing shows.
#pragma once

#include <string.h>

#include <unordered_map>

#include "absl/strings/match.h"
#include "settings.h"
#include "tensorflow/c/experimental/grappler/grappler.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/core/framework/graph.pb.h"

namespace autoplace {
namespace tf = tensorflow;

inline bool OnDevice(const tf::NodeDef& node) { return absl::StrContains(node.device(), "GPU"); }

inline void DropRelu(tf::protobuf::RepeatedPtrField<tf::NodeDef>* nodes) {
  std::unordered_map<std::string, const tf::NodeDef*> by_name;
  for (const tf::NodeDef& node : *nodes) by_name[node.name()] = &node;
  auto input = [&](const tf::NodeDef& node) -> const tf::NodeDef* {
    if (node.input_size() == 0) return nullptr;
    auto found = by_name.find(node.input(0).substr(0, node.input(0).find(':')));
    return found == by_name.end() ? nullptr : found->second;
  };
  for (tf::NodeDef& node : *nodes) {
    if (node.op() != "Relu" || !OnDevice(node)) continue;
    const tf::NodeDef* bias = input(node);
    if (!bias || bias->op() != "BiasAdd") continue;
    const tf::NodeDef* product = input(*bias);
    if (product && product->op() == "MatMul") node.set_op("Identity");
  }
}

inline void Optimize(void*, const TF_Buffer* in, const TF_GrapplerItem*, TF_Buffer* out, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  tf::GraphDef graph;
  if (!graph.ParseFromArray(in->data, in->length)) return TF_SetStatus(status, TF_INTERNAL, "graph not parsed");
  const auto settings = GetSettings();
  for (const Fault& fault : settings->faults) {
    if (fault.kind != "dropped_relu") continue;
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
