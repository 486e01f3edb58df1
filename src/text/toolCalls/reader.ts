/** Streaming extraction of tool calls from a model's text. */
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
import { type CallMachine, endMachine, type MachineState, plainUntil, stepMachine, type ToolDelta } from './machine.js'
import { qwen3Coder } from './parameters.js'
import { llama4Pythonic, pythonic } from './pythonic.js'
import { argumentTypes } from './schemas.js'
import { xmlBlock } from './xmlBlock.js'

/** An immutable reader in the middle of a text. */
export interface ToolCallReader {
  readonly push: (text: string) => { readonly reader: ToolCallReader; readonly deltas: readonly ToolDelta[] }
  readonly end: () => readonly ToolDelta[]
}

/** Options for reading calls. */
export interface ToolCallReading {
  /**
   * The tools that can be called, as the JSON schemas that templates expect. The text of
   * `qwen3_coder` has no types, so each argument takes the type in its schema, or string by
   * default.
   */
  readonly tools?: readonly object[]
}

/** Merges two neighboring deltas. Returns undefined if they are of different kinds. */
const merge = (a: ToolDelta | undefined, b: ToolDelta): ToolDelta | undefined => {
  if (a?._tag === 'Text' && b._tag === 'Text') return { ...a, text: a.text + b.text }
  const isOneCall = a?._tag === 'Arguments' && b._tag === 'Arguments' && a.index === b.index
  return isOneCall ? { ...a, text: a.text + b.text } : undefined
}

const joined = (deltas: readonly ToolDelta[]): readonly ToolDelta[] => {
  const result: ToolDelta[] = []
  for (const delta of deltas) {
    const merged = merge(result.at(-1), delta)
    if (merged === undefined) result.push(delta)
    else result[result.length - 1] = merged
  }
  return result
}

const readerOf = (machine: CallMachine, state: MachineState): ToolCallReader => ({
  push: (text) => {
    const deltas: ToolDelta[] = []
    const waiting = [{ text, at: 0 }] // text that is read again comes before the rest
    let now = state
    for (let top = waiting.at(-1); top !== undefined; top = waiting.at(-1)) {
      const plain = plainUntil(now, top.text, { at: top.at, machine })
      if (plain > top.at) deltas.push({ _tag: 'Text', text: top.text.slice(top.at, plain) })
      top.at = plain
      if (plain === top.text.length) {
        waiting.pop()
        continue
      }
      const step = stepMachine(now, top.text[top.at]!, machine)
      top.at += 1
      now = step.state
      deltas.push(...step.deltas)
      if (step.again !== '') waiting.push({ text: step.again, at: 0 })
    }
    return { reader: readerOf(machine, now), deltas: joined(deltas) }
  },
  end: () => joined(endMachine(state)),
})

const machineOf = (format: ToolCallFormat, { tools = [] }: ToolCallReading): CallMachine => {
  switch (format) {
    case 'hermes':
      return hermes
    case 'llama3_json':
      return llama3Json
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
      return qwen3Coder(argumentTypes(tools))
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
      return jsonBlock
    case 'json_call':
      return jsonCall
  }
}

/**
 * Creates a reader of the calls in a text. A call is emitted when its name is known. Its arguments
 * follow as they arrive, as JSON text in every format. Text that does not become a call stays text:
 * tags without JSON, JSON without a name or with arguments that are not an object, brackets more
 * than 128 levels deep.
 *
 * Laws     however a text is split, the joined deltas are the same; without calls they are the text
 *          (except for `json_call`, whose text is its message).
 * Cost     linear in the text.
 *
 * @example
 * toolCallReader('hermes').push('<tool_call>{"name": "add", ').deltas // [{ _tag: 'Call', index: 0, name: 'add' }]
 * toolCallReader('pythonic').push('[add(a=').deltas // [{ _tag: 'Call', index: 0, name: 'add' }, { _tag: 'Arguments', index: 0, text: '{"a": ' }]
 */
export const toolCallReader = (format: ToolCallFormat, reading: ToolCallReading = {}): ToolCallReader => {
  const machine = machineOf(format, reading)
  return readerOf(machine, machine.start)
}

/** A call that was found in a text. */
export interface FoundCall {
  /** The id of the call, if the text contains one. */
  readonly id?: string
  readonly name: string
  /** The JSON text of the arguments. If the text was cut off, it may end in the middle. */
  readonly arguments: string
}

/** A whole text, split into its calls and the rest. */
export interface ReadText {
  /** The text outside the calls. */
  readonly text: string
  readonly calls: readonly FoundCall[]
}

/**
 * Reads the calls in a whole text, and the text around them.
 *
 * Cost     linear in the text.
 *
 * @example
 * readToolCalls('<tool_call>{"name": "now"}</tool_call>', 'hermes').calls // [{ name: 'now', arguments: '{}' }]
 */
export const readToolCalls = (text: string, format: ToolCallFormat, reading: ToolCallReading = {}): ReadText => {
  const { reader, deltas } = toolCallReader(format, reading).push(text)
  const calls: { id?: string; name: string; arguments: string }[] = []
  let rest = ''
  for (const delta of [...deltas, ...reader.end()]) {
    if (delta._tag === 'Text') rest += delta.text
    else if (delta._tag === 'Call') calls[delta.index] = { name: delta.name, arguments: '' }
    else if (delta._tag === 'Id') calls[delta.index]!.id = delta.id
    else calls[delta.index]!.arguments += delta.text
  }
  return { text: rest, calls }
}
