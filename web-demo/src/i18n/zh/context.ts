// What the pages say of a chat's context, and of who answers, in Chinese.

import type { Translated } from '../areas';
import type english from '../en/context';

const context: Translated<typeof english> = {
  assistant: '助手',
  meter: '模型上下文的占用',
  meterLabel: '模型上下文已用 {{percent}} %：查看摘要或立即压缩',
  open: '摘要：查看，或压缩此对话',
  summarised_one: '较早的 {{count}} 条消息已总结',
  summarised_other: '较早的 {{count}} 条消息已总结',
  compaction: {
    running_one: '正在总结较早的 {{count}} 条消息…',
    running_other: '正在总结较早的 {{count}} 条消息…',
    done_one: '已总结较早的 {{count}} 条消息，使对话不超出模型的上下文。',
    done_other: '已总结较早的 {{count}} 条消息，使对话不超出模型的上下文。',
    failed_one: '较早的 {{count}} 条消息未经总结即被略去，使对话不超出模型的上下文。',
    failed_other: '较早的 {{count}} 条消息未经总结即被略去，使对话不超出模型的上下文。',
  },
  title: '摘要',
  close: '关闭摘要窗口',
  none: '还没有摘要：模型会读取全部消息。',
  explained_one: '模型读取此摘要，而不是较早的 {{count}} 条消息。更正后，模型即按新内容回答。',
  explained_other: '模型读取此摘要，而不是较早的 {{count}} 条消息。更正后，模型即按新内容回答。',
  instructions: '侧重内容（可选）',
  compact: '立即压缩',
  refused: {
    nothing_to_compact: '目前没有可总结的内容：最近的消息始终原样保留。',
    run_open: '有回答正在生成或等待处理。请在完成后再压缩，或先将其停止。',
    unavailable: '未能生成摘要，对话保持不变。请稍后重试。',
  },
  repeated: '有几行的名称相同：{{names}}。请修改其中一行的名称，或合并这些行，然后再保存。',
  save: '保存',
  fields: {
    goal: '目标',
    decisions: '决定，每行一条',
    done: '已完成，每行一条',
    todo: '待办，每行一条',
    facts: '事实，每行一条',
    openQuestions: '未决问题，每行一条',
    toolsUsed: '用过的工具，每行一条',
    entities: '名称和数字，例如“port: 8080”，每行一条',
  },
};

export default context;
