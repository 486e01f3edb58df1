/** Streaming extraction of tool calls from a model's text. */
import type { Message } from '../history/history.js'
import type { ToolCallFormat } from './format.js'
import { jsonCall } from './jsonCall.js'
import {
  cohere,
  deepSeekV3,
  deepSeekV31,
  granite3,
  hermes,
  internLm,
  jsonBlock,
  llama3Json,
  mistralCalls,
  phi4Mini,
} from './jsonFormats.js'
import {
  type CallMachine,
  endMachine,
  isInCall,
  type MachineState,
  markedCalls,
  plainUntil,
  startOf,
  stepMachine,
  type ToolDelta,
  type WrittenCall,
  withThoughts,
} from './machine.js'
import { qwen3Coder } from './parameters.js'
import { llama4Pythonic, pythonic } from './pythonic.js'
import { argumentSchemas, toolNames } from './schemas.js'
import { type Thoughts, UNKNOWN_THOUGHTS } from './thoughts.js'
import { xmlBlock } from './xmlBlock.js'

/** An immutable reader in the middle of a text. */
export interface ToolCallReader {
  readonly push: (text: string) => { readonly reader: ToolCallReader; readonly deltas: readonly ToolDelta[] }
  /** Returns the last deltas. A call at the end of an incomplete text is malformed. */
  readonly end: (details: Pick<Message, 'isComplete'>) => readonly ToolDelta[]
}

/** Options for reading calls. */
export interface ToolCallReading {
  /**
   * The tools that can be called, as the JSON schemas that templates expect. The text of
   * `qwen3_coder` has no types, so each argument takes the type in its schema, or string by
   * default. In `llama3_json` and `json_block`, an object without arguments is data unless its name
   * is that of a tool.
   */
  readonly tools?: readonly object[]
  /**
   * False if the text was cut off, as by a limit of tokens: a call at its end is malformed. Default
   * true.
   */
  readonly isComplete?: boolean
  /**
   * The model's thoughts, in which no calls are read. `searched`: calls count in them too. Default:
   * what is between `<think>` and `</think>`, or before the latter.
   */
  readonly thoughts?: Thoughts | 'searched'
}

/** Merges two neighboring deltas. Returns undefined if they are not text of one kind. */
const merge = (a: ToolDelta | undefined, b: ToolDelta): ToolDelta | undefined =>
  a !== undefined && a._tag !== 'Call' && a._tag === b._tag ? { ...a, text: a.text + b.text } : undefined

const joined = (deltas: readonly ToolDelta[]): readonly ToolDelta[] => {
  const result: ToolDelta[] = []
  for (const delta of deltas) {
    const merged = merge(result.at(-1), delta)
    if (merged === undefined) result.push(delta)
    else result[result.length - 1] = merged
  }
  return result
}

/** The state of a machine after a text, and the deltas of the text. */
interface Run {
  readonly state: MachineState
  readonly deltas: readonly ToolDelta[]
}

const run = (machine: CallMachine, before: MachineState, text: string): Run => {
  const deltas: ToolDelta[] = []
  const waiting = [{ text, at: 0 }] // text that is read again comes before the rest
  let state = before
  for (let top = waiting.at(-1); top !== undefined; top = waiting.at(-1)) {
    const plain = plainUntil(state, top.text, { at: top.at, machine })
    if (plain > top.at) deltas.push({ _tag: 'Text', text: top.text.slice(top.at, plain) })
    top.at = plain
    if (plain === top.text.length) {
      waiting.pop()
      continue
    }
    const step = stepMachine(state, top.text[top.at]!, machine)
    top.at += 1
    state = step.state
    deltas.push(...step.deltas)
    if (step.again !== '') waiting.push({ text: step.again, at: 0 })
  }
  return { state, deltas: joined(deltas) }
}

const readerOf = (machine: CallMachine, state: MachineState): ToolCallReader => ({
  push: (text) => {
    const next = run(machine, state, text)
    return { reader: readerOf(machine, next.state), deltas: next.deltas }
  },
  end: ({ isComplete }) => joined(endMachine(state, isComplete ? 'complete' : 'cut', machine)),
})

const formatMachine = (format: ToolCallFormat | 'none', { tools = [] }: ToolCallReading): CallMachine => {
  switch (format) {
    case 'none':
      return markedCalls([])
    case 'hermes':
      return hermes
    case 'llama3_json':
      return llama3Json(toolNames(tools))
    case 'pythonic':
      return pythonic
    case 'llama4_pythonic':
      return llama4Pythonic
    case 'mistral':
      return mistralCalls
    case 'deepseek_v3':
      return deepSeekV3
    case 'deepseek_v31':
      return deepSeekV31
    case 'qwen3_coder':
      return qwen3Coder(argumentSchemas(tools))
    case 'granite':
      return granite3
    case 'phi4_mini_json':
      return phi4Mini
    case 'internlm':
      return internLm
    case 'cohere_command3':
      return cohere
    case 'xml_block':
      return xmlBlock
    case 'json_block':
      return jsonBlock(toolNames(tools))
    case 'json_call':
      return jsonCall
  }
}

/**
 * Determines the place of a text's start. Text up to a closing tag is thoughts, unless the text
 * has its opening tag, or the tag is in a call.
 */
const placeOf = (machine: CallMachine, { tags: [open, close] }: Thoughts, text: string): Thoughts['place'] => {
  const closed = text.indexOf(close)
  if (closed === -1 || text.lastIndexOf(open, closed) !== -1) return 'outside'
  return isInCall(run(machine, machine.start, text.slice(0, closed)).state) ? 'outside' : 'inside'
}

const machineOf = (format: ToolCallFormat | 'none', reading: ToolCallReading, whole?: string): CallMachine => {
  const machine = formatMachine(format, reading)
  const { thoughts = UNKNOWN_THOUGHTS } = reading
  if (thoughts === 'searched') return machine
  const isUnknown = thoughts.place === 'unknown' && whole !== undefined
  return withThoughts(machine, isUnknown ? { ...thoughts, place: placeOf(machine, thoughts, whole) } : thoughts)
}

/**
 * Creates a reader of the calls in a text. A call is emitted when it has ended and something
 * follows it, or the text ends. A call that breaks off, or whose arguments are not an object, is
 * malformed and has its `problem`. Text that does not become a call is emitted as it arrives: tags
 * without JSON, and JSON without a name where other data is possible. Format 'none' has no calls.
 *
 * Laws     however a text is split, the joined deltas are the same; without calls they are the text
 *          (except for `json_call`, whose text is its message). No strict prefix of a written call
 *          is a call without a problem.
 * Cost     linear in the text.
 *
 * @example
 * toolCallReader('hermes').push('Hm. <tool_call>{"name": "add", "argum').deltas // [{ _tag: 'Text', text: 'Hm. ' }]
 */
export const toolCallReader = (format: ToolCallFormat | 'none', reading: ToolCallReading = {}): ToolCallReader => {
  const machine = machineOf(format, reading)
  return readerOf(machine, startOf(machine))
}

/** A whole text, split into its calls and the rest. */
export interface ReadText {
  /** The text outside the calls. */
  readonly text: string
  /** The calls in their order. Those with a `problem` are malformed. */
  readonly calls: readonly WrittenCall[]
  /** The thoughts, if they are read apart from the text. */
  readonly reasoning?: string
}

/**
 * Reads the calls in a whole text, and the text around them.
 *
 * Cost     linear in the text.
 *
 * @example
 * readToolCalls('<tool_call>{"name": "now"}</tool_call>', 'hermes').calls // [{ name: 'now', arguments: '{}' }]
 */
export const readToolCalls = (
  text: string,
  format: ToolCallFormat | 'none',
  reading: ToolCallReading = {},
): ReadText => {
  const machine = machineOf(format, reading, text)
  const { state, deltas } = run(machine, startOf(machine), text)
  const { isComplete = true } = reading
  const all = [...deltas, ...endMachine(state, isComplete ? 'complete' : 'cut', machine)]
  const textOf = (tag: 'Text' | 'Thoughts'): string =>
    all.map((delta) => (delta._tag === tag ? delta.text : '')).join('')
  const reasoning = textOf('Thoughts')
  return {
    text: textOf('Text'),
    calls: all.flatMap((delta) => (delta._tag === 'Call' ? [delta.call] : [])),
    ...(reasoning !== '' && { reasoning }),
  }
}
