/**
 * Times nested get, set, stack of four and indexing of a TensorDict of 20 leaves, against Python's
 * tensordict on the same machine.
 *
 * Both sides have the same tree (see `tree`), the same operations, one thread, a warm-up as long
 * as four runs, and report the median of the runs. Our leaves without tensors are data: eight
 * strings. Python has no such leaf of its own speed, so there are three rows for each operation:
 *
 * - against tensors of the meta device, which have a shape but no numbers;
 * - against the same, less what torch takes for the same work on 20 tensors that are in no
 *   TensorDict: what tensordict itself takes. (On the meta device a list as index costs much in
 *   torch.) Nothing is taken off our time. get and set do no work on leaves.
 * - against `NonTensorStack`s of eight strings, which hold what ours hold.
 *
 * Then small float32 tensors on both sides. Ours are computed in one graph when they are read,
 * theirs at once: what is timed here is recording. Set changes the TensorDict in Python, and gives
 * another one here.
 */
import { execFileSync } from 'node:child_process'
import { median } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { own, scope, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { Command } from 'commander'
import { data, get, index, type Leaf, set, stack, TensorDict } from 'tandem-rl/tensordict'
import { ownPeer, peerPython } from './shared/peers.js'

const command = new Command()
  .description('Times get, set, stack and index of a nested TensorDict; the ratios are to Python.')
  .option('--batch <n>', 'batch elements', Number, 8)
  .option('--runs <n>', 'timed runs of each operation', Number, 9)
  .option('--millis <n>', 'length of a run', Number, 60)
  .option('--peer', 'also run Python, and print the ratios of the times: above 1, we are faster')
command.parse()
const settings = command.opts<{
  readonly batch: number
  readonly runs: number
  readonly millis: number
  readonly peer?: boolean
}>()

const FEATURES = 4

/** Processor time in microseconds for one call. */
interface Micros {
  readonly median: number
  readonly lowest: number
  readonly highest: number
}

type Results = Readonly<Record<string, Readonly<Record<string, Micros>>>>

/** 20 leaves: four nodes of four leaves inside one node, and four leaves beside it. */
const tree = (leaf: () => Leaf): TensorDict => {
  const leaves = (): Readonly<Record<string, Leaf>> => ({ leaf0: leaf(), leaf1: leaf(), leaf2: leaf(), leaf3: leaf() })
  const nodes = { node0: leaves(), node1: leaves(), node2: leaves(), node3: leaves() }
  return TensorDict({ ...leaves(), nodes }, [settings.batch])
}

/** Processor time so far, of all threads of this process: what else the machine does matters little to it. */
const processorMicros = (): number => {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** The warm-up takes as long as this many runs: compilers are done by then. */
const WARM_RUNS = 4

const time = (f: () => void): Micros => {
  let calls = 0
  for (const started = processorMicros(); processorMicros() - started < WARM_RUNS * settings.millis * 1000; calls++) f()
  const count = Math.ceil(calls / WARM_RUNS)
  const runs = Array.from({ length: settings.runs }, () => {
    const started = processorMicros()
    for (let i = 0; i < count; i++) f()
    return (processorMicros() - started) / count
  })
  return { median: median(runs), lowest: Math.min(...runs), highest: Math.max(...runs) }
}

const PATH = ['nodes', 'node2', 'leaf3'] as const

/** The operations on trees of one kind of leaf. Tensors that they make are freed, and computed where Python computes them. */
const operationsOf = (leaf: () => Leaf, run: (f: () => TensorDict) => void): Readonly<Record<string, () => void>> => {
  const td = tree(leaf)
  const four = Array.from({ length: 4 }, () => tree(leaf))
  const value = leaf()
  return {
    get: () => get(td as TensorDict<{ nodes: TensorDict<{ node2: TensorDict<{ leaf3: Leaf }> }> }>, ...PATH), // made above
    set: () => run(() => set(td, PATH, value) as TensorDict), // of any schema
    'stack of 4': () => run(() => stack(four)),
    'index integer': () => run(() => index(td, 3)),
    'index slice': () => run(() => index(td, { start: 2, end: 6 })),
    'index list': () => run(() => index(td, [5, 1, 3])),
  }
}

const timesOf = (operations: Readonly<Record<string, () => void>>): Readonly<Record<string, Micros>> =>
  Object.fromEntries(Object.entries(operations).map(([name, f]) => [name, time(f)]))

await selectBackend({ threads: 1 })

const metadata = operationsOf(
  () => data(Array.from({ length: settings.batch }, (_, i) => `value ${i}`)),
  (f) => f(),
)
const ours: Record<string, Readonly<Record<string, Micros>>> = { metadata: timesOf(metadata) }
const held = own(
  scope(() => {
    const made: tf.Tensor[] = []
    const leaf = (): tf.Tensor => {
      const tensor = tf.zeros([settings.batch, FEATURES])
      made.push(tensor)
      return tensor
    }
    const operations = operationsOf(leaf, (f) => {
      scope(() => {
        f()
        return []
      })
    })
    return { made, operations }
  }),
)
ours.tensors = timesOf(held.value.operations)
held.release()

console.log(JSON.stringify({ program: 'tensordict', peer: 'tandem', results: ours satisfies Results, ...host() }))

if (settings.peer === true) {
  const args = ['--batch', settings.batch, '--features', FEATURES, '--runs', settings.runs, '--millis', settings.millis]
  const output = execFileSync(peerPython(), [ownPeer('tensorDict.py'), ...args.map(String)], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const theirs = JSON.parse(output) as { readonly peer: string; readonly results: Results } // printed by tensorDict.py
  console.log(JSON.stringify({ program: 'tensordict', ...theirs }))
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const micros = ({ median: m, lowest, highest }: Micros): string =>
    `${m.toFixed(2)} (${lowest.toFixed(2)} .. ${highest.toFixed(2)})`
  console.log(row(['leaves', 'operation', 'tandem, us', `${theirs.peer}, us`, 'ratio']))
  console.log(row(['---', '---', '--:', '--:', '--:']))
  const compare = (
    kinds: string,
    mine: keyof typeof ours & string,
    peer: (name: string) => Micros | undefined,
  ): void => {
    for (const [name, own] of Object.entries(ours[mine]!)) {
      const other = peer(name)
      if (other !== undefined)
        console.log(row([kinds, name, micros(own), micros(other), (other.median / own.median).toFixed(1)]))
    }
  }
  const { meta, 'without torch': withoutTorch, values, tensors } = theirs.results
  compare('data : meta tensors', 'metadata', (name) => meta![name])
  compare("data : meta tensors, less torch's own time", 'metadata', (name) => withoutTorch![name])
  compare('data : values', 'metadata', (name) => values![name])
  compare('tensors : tensors', 'tensors', (name) => tensors![name])
}
