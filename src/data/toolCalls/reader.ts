/** Reading the calls of tools out of a model's text while it is written. */
import type { ToolDelta } from './callObject.js'
import type { ToolCallFormat } from './format.js'
import { hermes } from './hermes.js'
import { llama3 } from './llama3.js'
import type { CallMachine } from './machine.js'

/** A text being read, as an immutable value. */
export interface ToolCallReader {
  readonly push: (text: string) => { readonly reader: ToolCallReader; readonly deltas: readonly ToolDelta[] }
  readonly end: () => readonly ToolDelta[]
}

/** Two neighbors as one; undefined if they are of different kinds. */
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

const readerOf = <S>(machine: CallMachine<S>, state: S): ToolCallReader => ({
  push: (text) => {
    const deltas: ToolDelta[] = []
    let now = state
    let waiting = text
    for (let i = 0; i < waiting.length; i++) {
      const step = machine.step(now, waiting[i]!)
      now = step.state
      deltas.push(...step.deltas)
      if (step.again !== undefined && step.again !== '') {
        waiting = step.again + waiting.slice(i + 1)
        i = -1
      }
    }
    return { reader: readerOf(machine, now), deltas: joined(deltas) }
  },
  end: () => joined(machine.end(state)),
})

/**
 * A reader of the calls in a text. A call is told when its name is known; its arguments follow as they are written. What does not become a
 * call stays text: tags without JSON, JSON without a name or with arguments that are no object.
 *
 * Laws     however a text is cut, the joined deltas are the same; without calls they are the text.
 *
 * @example
 * toolCallReader('hermes').push('<tool_call>{"name": "add", ').deltas // [{ _tag: 'Call', index: 0, name: 'add' }]
 */
export const toolCallReader = (format: ToolCallFormat): ToolCallReader => {
  switch (format) {
    case 'hermes':
      return readerOf(hermes, hermes.start)
    case 'llama3_json':
      return readerOf(llama3, llama3.start)
  }
}

/** A whole text in which the calls were found. */
export interface ReadText {
  /** What is not part of a call. */
  readonly text: string
  /** `arguments` is JSON text as far as it was written: a text that was cut off may end in the middle of it. */
  readonly calls: readonly { readonly name: string; readonly arguments: string }[]
}

/**
 * The calls in a whole text, and the text around them.
 *
 * @example
 * readToolCalls('<tool_call>{"name": "now"}</tool_call>', 'hermes').calls // [{ name: 'now', arguments: '{}' }]
 */
export const readToolCalls = (text: string, format: ToolCallFormat): ReadText => {
  const { reader, deltas } = toolCallReader(format).push(text)
  const all = [...deltas, ...reader.end()]
  const argumentsOf = (index: number): string =>
    all.map((delta) => (delta._tag === 'Arguments' && delta.index === index ? delta.text : '')).join('')
  return {
    text: all.map((delta) => (delta._tag === 'Text' ? delta.text : '')).join(''),
    calls: all.flatMap((delta) =>
      delta._tag === 'Call' ? [{ name: delta.name, arguments: argumentsOf(delta.index) }] : [],
    ),
  }
}
