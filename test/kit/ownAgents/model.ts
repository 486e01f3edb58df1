/** A tiny model that mostly guesses codes, and sometimes looks them up. */
import { child, type Key, keyFromSeed, orThrow, uniform, uniformInteger } from '@tandem-rl/base'
import { appendMessage, History, message, textOf, toolResult } from '@tandem-rl/text'
import { type TaskSource, taskList } from '../../../src/data/task.js'
import type { Pretrained } from '../../../src/modules/pretrained/pretrained.js'
import { makeModel } from '../../../src/run/define/makeModel.js'
import { codeOf } from './table.mjs'

const NAMES = ['ann', 'bob', 'cat', 'dan', 'eve', 'fay', 'gus', 'hal']
const DAYS = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']

const PAIRS = NAMES.flatMap((name) => DAYS.map((day) => ({ name, day })))

const questionOf = ({ name, day }: (typeof PAIRS)[number]): string => `${name} ${day}?`

/** Questions about every person and day. */
export const lookupTasks: TaskSource = taskList(
  'lookups',
  PAIRS.map((pair) => ({ id: questionOf(pair), query: questionOf(pair), answer: codeOf(questionOf(pair)) })),
)

/** Shows nothing of system messages and tools, so that prompts are short. */
const TEMPLATE = `{%- for message in messages -%}
{%- if message.role == 'user' -%}{{- message.content -}}
{%- elif message.role == 'tool' -%}{{- '<|result|>' + message.content -}}
{%- elif message.role == 'assistant' -%}
{{- '<|answer|>' + (message.content or '') -}}
{%- for call in message.tool_calls or [] -%}<tool_call>{{- call.function | tojson -}}</tool_call>{%- endfor -%}
{{- '<|end|>' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|answer|>{%- endif -%}`

const FORMAT = {
  template: TEMPLATE,
  specialTokens: ['<|pad|>', '<|end|>', '<|answer|>', '<|result|>'],
  endOfTurn: '<|end|>',
  padToken: '<|pad|>',
}

/** Six of ten guess; the others look up the code. */
const shown = (key: Key, tool: string): History => {
  const { name, day } = PAIRS[uniformInteger(key, PAIRS.length)]!
  const asked = History([message('user', questionOf({ name, day }))])
  if (uniform(key, 1) < 0.6) return appendMessage(asked, message('assistant', String(uniformInteger(key, 4, 2))))
  const call = { name: tool, arguments: {} }
  const code = String(uniformInteger(key, 4, 3)) // copied, not known
  return [
    message('assistant', `<tool_call>${JSON.stringify(call)}</tool_call>`),
    toolResult(call, code),
    message('assistant', code),
  ].reduce(appendMessage, asked)
}

/** Six results of tools, each repeated as the answer. */
const copied = (key: Key): History =>
  Array.from({ length: 6 }, (_, i) => String(uniformInteger(key, 4, i)))
    .flatMap((code) => [toolResult({ name: 'lookup', arguments: {} }, code), message('assistant', code)])
    .reduce(appendMessage, History([message('user', questionOf(PAIRS[uniformInteger(key, PAIRS.length, 9)]!))]))

/** Makes the start model, which knows the tool by a name. */
export const lookupModel = async (tool = 'lookup'): Promise<Pretrained> => {
  const key = keyFromSeed(1)
  const conversation = (index: number): History => shown(child(key, index), tool)
  const texts = Array.from({ length: 200 }, (_, i) => conversation(i).messages.map(textOf).join('\n'))
  return orThrow(
    await makeModel({
      family: 'qwen3',
      sizes: { hiddenSize: 64, layers: 1, heads: 4 },
      tokenizer: { texts, vocabularySize: 340, format: FORMAT },
      key: child(key, 'model'),
      stages: [
        {
          name: 'copies',
          conversation: (index) => copied(child(key, index)),
          conversations: 1280,
          batch: 32,
          learningRate: 8e-3,
          warmUpSteps: 10,
        },

        { name: 'lookups', conversation, conversations: 3840, batch: 32, learningRate: 8e-3, warmUpSteps: 10 },
      ],
    })(),
  )
}
