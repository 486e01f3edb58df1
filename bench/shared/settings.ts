/** Shared parts of the benchmarks: options, the peers' model, timing and comparison. */
import { availableParallelism } from 'node:os'
import { keyFromSeed, median, orThrow, permutation } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { Command, Option } from 'commander'
import { type DecoderConfig, parseConfig } from '../../src/modules/transformer/config.js'
import type { Peer, PeerTimes } from './peers.js'

/** Options that every bench command has, as numbers. */
export interface BenchSettings {
  readonly hidden: number
  readonly layers: number
  readonly heads: number
  readonly kvHeads: number
  readonly vocab: number
  readonly threads: number
  readonly runs: number
  readonly warmup: number
}

const MODEL_OPTIONS: Readonly<Record<string, number>> = {
  hidden: 128,
  layers: 4,
  heads: 4,
  kvHeads: 2,
  vocab: 256,
  threads: Math.min(2, availableParallelism()),
  runs: 5,
  warmup: 2,
}

const toFlag = (name: string): string => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`

/** Reads a positive integer. Throws Error for other text. */
export const wholeNumber = (text: string): number => {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new Error(`'${text}' is not a positive integer`)
  return value
}

/**
 * Makes a command with the model's options and `extra`. Call `settingsOf` after it has parsed its
 * arguments.
 */
export const benchCommand = <K extends string>(
  description: string,
  extra: Readonly<Record<K, number>>,
): { readonly command: Command; readonly settingsOf: () => BenchSettings & Readonly<Record<K, number>> } => {
  const command = new Command().description(description)
  for (const [name, value] of Object.entries<number>({ ...MODEL_OPTIONS, ...extra })) {
    command.option(`${toFlag(name)} <n>`, '', wholeNumber, value)
  }
  return { command, settingsOf: () => command.opts<BenchSettings & Record<K, number>>() } // all options have defaults
}

/**
 * Reads the command line: the model's options and `extra`, and the program to compare with, one of
 * `peers`. Without a name, `--peer` is the first of them.
 */
export const readOptions = <K extends string, P extends string>(
  description: string,
  extra: Readonly<Record<K, number>>,
  peers: readonly [P, ...P[]],
): { readonly settings: BenchSettings & Readonly<Record<K, number>>; readonly peer: P | undefined } => {
  const { command, settingsOf } = benchCommand(description, extra)
  command.addOption(
    new Option('--peer [name]', 'also run another program, in turns, and print the ratio of the speeds')
      .choices(peers)
      .preset(peers[0]),
  )
  command.parse()
  return { settings: settingsOf(), peer: command.opts<{ readonly peer?: P }>().peer }
}

/** The model of the peers: Qwen2-shaped, tied embeddings, SwiGLU of three times the width. */
export const benchConfig = (
  settings: Pick<BenchSettings, 'hidden' | 'layers' | 'heads' | 'kvHeads' | 'vocab'>,
): DecoderConfig =>
  orThrow(
    parseConfig({
      model_type: 'qwen2',
      vocab_size: settings.vocab,
      hidden_size: settings.hidden,
      intermediate_size: 3 * settings.hidden,
      num_hidden_layers: settings.layers,
      num_attention_heads: settings.heads,
      num_key_value_heads: settings.kvHeads,
      max_position_embeddings: 4096,
      tie_word_embeddings: true,
      eos_token_id: settings.vocab - 2,
      pad_token_id: settings.vocab - 1,
    }),
  )

/** Token ids that are neither start, end nor padding. */
export const randomIds = (seed: number, count: number, vocabulary: number): Int32Array => {
  const order = permutation(keyFromSeed(seed), Math.max(count, 1))
  return Int32Array.from({ length: count }, (_, i) => order[i]! % (vocabulary - 3))
}

/** One timed run, in seconds. */
export type TimedRun = () => Promise<number>

export interface BenchResult {
  readonly program: string
  readonly settings: BenchSettings
  readonly parameters: number
  /** The amount of work of one run, under the name that the peer gives its speed. */
  readonly work: { readonly name: string; readonly amount: number }
}

const print = (line: object): void => console.log(JSON.stringify(line))

const snakeCase = (settings: object): object =>
  Object.fromEntries(
    Object.entries(settings).map(([name, value]) => [
      name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )

const report = (result: BenchResult, peer: string, seconds: readonly number[]): object => {
  const middle = median(seconds)
  return {
    program: result.program,
    ...snakeCase(result.settings),
    peer,
    parameters: result.parameters,
    seconds: middle,
    [result.work.name]: result.work.amount / middle,
    spread: { lowest: Math.min(...seconds), highest: Math.max(...seconds) },
    ...host(),
  }
}

/** Number of turns of the two programs. */
const ROUNDS = 5

/**
 * Times a program and prints one JSON line. A peer runs in turns with it (A B A B ...), and the last
 * line has the ratio of the speeds: above 1, we are faster.
 */
export const runBench = async (result: BenchResult, run: TimedRun, peer: Peer | undefined): Promise<void> => {
  const { runs, warmup } = result.settings
  for (let i = 0; i < warmup; i++) await run()
  const timed = async (): Promise<readonly number[]> => {
    const seconds: number[] = []
    for (let i = 0; i < runs; i++) seconds.push(await run())
    return seconds
  }
  if (peer === undefined) {
    print(report(result, 'tandem', await timed()))
    return
  }
  const ours: number[] = []
  const theirs: PeerTimes[] = []
  for (let round = 0; round < ROUNDS; round++) {
    ours.push(median(await timed())) // as the peer does: its spread and ours are of the rounds' medians
    theirs.push(await peer.time())
  }
  const name = theirs[0]!.peer
  const seconds = theirs.map((times) => times.seconds)
  const compiling = theirs.flatMap(({ compileSeconds }) => compileSeconds ?? [])
  print(report(result, 'tandem', ours))
  print({
    ...report(result, name, seconds),
    ...(compiling.length > 0 && { compile_seconds: median(compiling) }),
  })
  print({ program: result.program, peer: name, ratio: median(seconds) / median(ours), rounds: ROUNDS, ...host() })
}
