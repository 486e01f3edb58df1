/**
 * Digests of what a run reads besides its settings: rows of data sets, tokenizers, chat templates,
 * recipe files. Run folders store them, so that a run does not continue with others unnoticed.
 */
import { liveDigest } from '@tandem-rl/base/host'
import type { RowSource } from './task.js'

/** Digests by name, such as `rows of train.jsonl`. */
export type Inputs = Readonly<Record<string, string>>

/** A part of a run that reads inputs. */
export interface WithInputs {
  /** Returns the digests of the inputs. Reads all of them. Default: none. */
  readonly inputs?: (() => Inputs) | undefined
}

/** Joins inputs. Others of the same name get a number. */
export const joinInputs = (all: readonly Inputs[]): Inputs => {
  const joined = new Map<string, string>()
  for (const [name, digest] of all.flatMap((each) => Object.entries(each))) {
    let [free, n] = [name, 1]
    while (joined.has(free) && joined.get(free) !== digest) free = `${name} (${++n})`
    joined.set(free, digest)
  }
  return Object.fromEntries(joined)
}

/** Joins the inputs of two parts; none if neither has any. */
export const bothInputs = (first: WithInputs, second: WithInputs): WithInputs =>
  first.inputs === undefined && second.inputs === undefined
    ? {}
    : { inputs: () => joinInputs([first.inputs?.() ?? {}, second.inputs?.() ?? {}]) }

/** Converts numbers that JSON lacks to text. */
const plainNumbers = (_: string, value: unknown): unknown =>
  typeof value === 'bigint' || (typeof value === 'number' && !Number.isFinite(value)) ? String(value) : value

/**
 * Returns a digest of all rows in order, or `null` for endless sources. Unreadable rows count by
 * reason.
 */
export const rowsDigest = <Row>({ size, at }: Pick<RowSource<Row>, 'size' | 'at'>): string | null => {
  if (size === 'endless') return null
  const rows = Array.from({ length: size }, (_, index) => liveDigest(JSON.stringify(at(index), plainNumbers)))
  return liveDigest(rows.join())
}

/** Returns the rows of a source as an input. Endless sources compute theirs. */
export const rowInputs = <Row>(source: RowSource<Row>): Inputs => {
  const digest = rowsDigest(source)
  return digest === null ? {} : { [`rows of ${source.name}`]: digest }
}

/** The parts of a model's text side that are inputs. */
export interface InputText {
  readonly template?: { readonly source: string }
  /** The files of the tokenizer, by name. */
  readonly files?: Readonly<Record<string, string>>
}

/** Returns the chat template and the tokenizer of a model as inputs. */
export const textInputs = ({ template, files = {} }: InputText): Inputs => {
  const tokenizer = files['tokenizer.json']
  return {
    ...(template !== undefined && { 'chat template': liveDigest(template.source) }),
    ...(tokenizer !== undefined && { tokenizer: liveDigest(tokenizer) }),
  }
}

/** Returns the names of the inputs that differ. */
export const changedInputs = (was: Inputs, is: Inputs): readonly string[] =>
  [...new Set([...Object.keys(was), ...Object.keys(is)])].filter((name) => was[name] !== is[name])
