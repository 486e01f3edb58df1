/**
 * Formats whose calls are JSON objects with a name and arguments, between opening and closing tags.
 */
import { argumentsObject, type CallKeys, callObject } from './callObject.js'
import { deepSeekTag } from './format.js'
import { type CallMachine, markedCalls, wholeAnswer } from './machine.js'
import {
  BROKEN,
  blanks,
  type Choice,
  END,
  either,
  emitting,
  endsCall,
  item,
  list,
  literal,
  named,
  optional,
  type Part,
  sequence,
  tagged,
} from './part.js'

/** The keys of most model families. */
const NAMED: CallKeys = { name: 'name', arguments: ['arguments', 'parameters'] }
/** The keys of Mistral's calls, which have ids. */
const NAMED_WITH_ID: CallKeys = { ...NAMED, id: 'id' }
const COHERE_KEYS: CallKeys = { name: 'tool_name', arguments: ['parameters'], id: 'tool_call_id' }

const call = callObject(NAMED)

/** Reads one object, or a list of them. */
const oneOrMore = (object: Part): Part => either((c) => (c === '[' ? list(object) : endsCall(object)))

/** Reads the arguments, and emits the name with their first character. */
const nameAndArguments =
  (name: string): Part =>
  (c) => {
    if (c !== '{') return BROKEN
    const step = argumentsObject(c)
    return { ...step, events: [{ _tag: 'Call', name, certainty: 'certain' }, ...step.events] }
  }

/**
 * Calls of the form `<tool_call>{...}</tool_call>`, with text around them. Source: the templates of
 * Hermes 2 Pro, Qwen 2.5 and Qwen 3.
 */
export const hermes: CallMachine = markedCalls([
  {
    tag: '<tool_call>',
    close: '</tool_call>',
    holds: 'calls',
    block: sequence(blanks, call, blanks, endsCall(literal('</tool_call>'))),
  },
])

const separated = (object: Part): Part =>
  sequence(
    blanks,
    either((c) => {
      if (c === ';') return sequence(literal(';'), separated(object))
      const next = c === '{' ? object : literal('<|python_end|>')
      return sequence(next, separated(object))
    }),
  )

/** The tags that may precede the first object. Llama 4's template closes its tag at once. */
const llamaTag: Part = tagged([
  ['<|python_tag|>', blanks],
  ['<|python_start|>', sequence(blanks, optional('<', sequence(literal('<|python_end|>'), blanks)))],
])

/**
 * The whole answer is `{"name": ..., "parameters": {...}}`, or several with `;` between. Source:
 * the chat templates of Llama 3.1, 3.2 and 4; `;` as in vLLM's `Llama3JsonToolParser`.
 */
export const llama3Json = (tools: ReadonlySet<string>): CallMachine => {
  const object = endsCall(callObject({ ...NAMED, tools }))
  return wholeAnswer(sequence(blanks, optional('<', llamaTag), object, separated(object)))
}

const granite: Part = sequence(blanks, oneOrMore(call), blanks, literal('<|/tool_call|>'))

/**
 * Granite 3: `<|tool_call|>[{...}, ...]`. Phi-4-mini's own template closes it with
 * `<|/tool_call|>`. Source: vLLM's parser of Granite 3.0 and 3.1, which also accepts
 * `<tool_call>[`.
 */
export const granite3: CallMachine = markedCalls([
  { tag: '<|tool_call|>', block: granite, holds: 'calls' },
  { tag: '<tool_call>', block: sequence(blanks, list(call)), holds: 'calls' },
])

/**
 * Phi-4-mini with vLLM's template: `functools[{...}, ...]`. Source: vLLM's
 * `Phi4MiniJsonToolParser`.
 */
export const phi4Mini: CallMachine = markedCalls([{ tag: 'functools', block: list(call), holds: 'calls' }])

/**
 * InternLM 2: `<|action_start|><|plugin|>{...}<|action_end|>`. Source: vLLM's
 * `Internlm2ToolParser`.
 */
export const internLm: CallMachine = markedCalls([
  {
    tag: '<|action_start|><|plugin|>',
    close: '<|action_end|>',
    holds: 'calls',
    block: sequence(blanks, call, blanks, endsCall(literal('<|action_end|>'))),
  },
])

/**
 * Command R7B and A: `<|START_ACTION|>[{"tool_call_id": ..., "tool_name": ..., "parameters":
 * {...}}]<|END_ACTION|>`. Source: the chat template of Command A for tools.
 */
export const cohere: CallMachine = markedCalls([
  {
    tag: '<|START_ACTION|>',
    close: '<|END_ACTION|>',
    holds: 'calls',
    block: sequence(blanks, list(callObject(COHERE_KEYS), literal(']')), blanks, endsCall(literal('<|END_ACTION|>'))),
  },
])

const mistralObject = callObject(NAMED_WITH_ID)

/** Reads the rest after the name: an optional id, then the arguments. */
const mistralRest = (name: string): Part =>
  either((c) => {
    const args = endsCall(nameAndArguments(name))
    if (c === '{') return args
    return tagged([
      ['[ARGS]', sequence(blanks, args)],
      ['[CALL_ID]', named('[', (id) => sequence(literal('[ARGS]'), blanks, withId(args, id)))],
    ])
  })

/** Emits the id after the call that begins with the first character. */
const withId =
  (part: Part, id: string): Part =>
  (c) => {
    const step = part(c)
    const [first, ...rest] = step.events
    return first === undefined ? step : { ...step, events: [first, { _tag: 'Id', id }, ...rest] }
  }

/**
 * Mistral: `[TOOL_CALLS][{...}, ...]`; the tokenizers from version 11 on
 * `[TOOL_CALLS]name[ARGS]{...}`, each call with its own tag, and some with `[CALL_ID]` before
 * `[ARGS]`. Source: the chat templates of Mistral 7B v0.3 and Nemo, mistral-common, vLLM's
 * `MistralToolParser`.
 */
export const mistralCalls: CallMachine = markedCalls([
  {
    tag: '[TOOL_CALLS]',
    holds: 'calls',
    block: sequence(
      blanks,
      either((c) => (c === '[' || c === '{' ? oneOrMore(mistralObject) : item(named('[{', mistralRest)))),
    ),
  },
])

/** JSON in a fence: one object, or a list of them. */
export const jsonBlock = (tools: ReadonlySet<string>): CallMachine => {
  const object = callObject({ ...NAMED, tools })
  const objects = either((c) => (c === '[' ? list(object, literal(']')) : object))
  return markedCalls([
    {
      tag: '```json',
      close: '```',
      holds: 'data',
      block: sequence(blanks, objects, blanks, endsCall(literal('```'))),
    },
  ])
}

const CALL_BEGIN = deepSeekTag('tool call begin')
const CALLS_END = deepSeekTag('tool calls end')
const SEPARATOR = deepSeekTag('tool sep')

/**
 * Creates the machine of calls in their tags, between outer tags. `body` reads the text after a
 * call's opening tag.
 */
const deepSeekCalls = (body: Part): CallMachine => {
  const rest: Part = sequence(body, blanks, literal(deepSeekTag('tool call end')), blanks, (c) => next(c))
  const choices: readonly Choice[] = [
    [CALL_BEGIN, rest, [...END, { _tag: 'Begin' }]],
    [CALLS_END, null, END],
  ]
  const next = tagged(choices)
  return markedCalls([
    {
      tag: deepSeekTag('tool calls begin'),
      close: CALLS_END,
      holds: 'calls',
      block: sequence(blanks, emitting(literal(CALL_BEGIN), [{ _tag: 'Begin' }]), rest),
    },
  ])
}

/**
 * DeepSeek V3 and R1: after the kind of the call and the name, the arguments are in a fence.
 * Source: their chat templates.
 */
export const deepSeekV3: CallMachine = deepSeekCalls(
  named('<', () =>
    sequence(
      literal(SEPARATOR),
      named('\n', (name) => sequence(literal('\n```json\n'), blanks, nameAndArguments(name), blanks, literal('```'))),
    ),
  ),
)

/**
 * DeepSeek V3.1: the name, and the arguments as they are. Source: its chat template, vLLM's
 * `DeepSeekV31ToolParser`.
 */
export const deepSeekV31: CallMachine = deepSeekCalls(
  named('<', (name) => sequence(literal(SEPARATOR), blanks, nameAndArguments(name))),
)
