// What the pages say of what is going on: the line above the composer, plans, details of a call, in Chinese.

import type { Translated } from '../areas';
import type english from '../en/runs';

const runs: Translated<typeof english> = {
  planning: '正在制定计划…',
  thinking: '处理中…',
  writing: '正在回答…',
  'reading-results': '正在查看结果…',
  'waits-for-you': '等待你的操作',
  'waits-for-page': '等待有此工具的页面',
  'waits-for-capacity': '服务器繁忙，排队等待中',
  running_one: '正在运行 {{tools}}',
  running_other: '正在运行 {{count}} 个工具：{{tools}}',
  resource: {
    here: '等待 {{resource}}（本对话的另一个调用正在使用）',
    elsewhere: '等待 {{resource}}（正被另一个对话占用）',
  },
  answerAbove: '请在上方作答。发送其他消息会取消它。',
  answerInMessage: '请在上方作答，或在下方写下您的回答。',
  answerBoth: '请在上方作答，或回复“{{word}}”。其他消息会作为对问题的回答。',
  answerInWords: '请在上方作答，或回复“{{word}}”。发送其他消息会取消它。',
  notification: {
    title: 'Fermata 正在等你',
    text_one: '有一个问题待处理。',
    text_other: '有 {{count}} 个问题待处理。',
    on: '有事等我时通知我',
    blocked: '浏览器阻止了此页面的通知。',
  },
  plan: {
    label: '计划',
    progress_one: '{{count}} 步中的 {{done}} 步',
    progress_other: '{{count}} 步中的 {{done}} 步',
    after: '在 {{steps}} 之后',
    goal: '目标',
    stepLabel: '第 {{number}} 步',
    up: '上移第 {{number}} 步',
    down: '下移第 {{number}} 步',
    remove: '删除第 {{number}} 步',
    add: '添加一步',
    state: {
      proposed: '等待你的决定',
      accepted: '进行中',
      denied: '未采用',
      done: '已完成',
    },
    step: { todo: '待办', doing: '进行中', done: '已完成', failed: '失败', skipped: '已略去' },
  },
  details: {
    edit: '修改',
    run: '运行',
    send: '发送',
    info: '操作',
    difference: '逐行差异',
    added: '新增',
    removed: '删除',
  },
  followed: {
    retry: '已重试',
    go_on: '模型未使用它而继续',
    ask_person: '已询问你如何处理',
    fail_run: '回答因此结束',
  },
  inPlaceOf: '代替 {{tool}}',
  replacedBy: '已改为调用 {{tool}}',
  retry: '重试',
  retryLabel: '重试 {{name}}',
  cancel: '取消',
  cancelLabel: '取消 {{name}}',
  refused: {
    not_running: '它已不在运行。',
    not_failed: '它没有失败，无需重试。',
    already_retried: '它已经重试过一次，新的调用在对话下方。',
    run_open: '有回答正在生成或等待处理。请在完成后再重试。',
  },
};

export default runs;
