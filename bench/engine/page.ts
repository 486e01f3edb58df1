/** The results page, in Markdown. */
import type { Spread } from '@tandem-rl/bench'
import { CONTESTANTS, type Contestant, REFERENCE } from './contestants.js'
import { type Absent, type Figure, type Outcome, rateOf } from './figures.js'
import { TOLERANCE } from './statistics.js'
import type { Workload } from './workloads.js'

/** The place and conditions of the measurements. */
export interface Circumstances {
  readonly host: { readonly cpu: string; readonly cores: number; readonly node: string }
  readonly memoryGiB: number
  readonly system: string
  readonly date: string
  /** Load averages over one minute, before and after. */
  readonly load: readonly [number, number]
  readonly threads: number
  readonly rounds: number
  readonly turnSeconds: number
  readonly command: string
}

const NAMES: Readonly<Record<Contestant, string>> = {
  onnxruntime: 'onnxruntime',
  torch: 'PyTorch, eager',
  tensorflow: 'tfjs-node',
  wasm: 'tfjs wasm',
}

const table = (header: readonly string[], rows: readonly (readonly string[])[]): string => {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [line(header), `|${header.map((_, i) => (i === 0 ? '---|' : '---:|')).join('')}`, ...rows.map(line)].join('\n')
}

/** Three significant digits, with a letter for thousands and more. */
export const short = (value: number): string => {
  const steps: readonly (readonly [number, string])[] = [
    [1e9, ' G'],
    [1e6, ' M'],
    [1e4, ' k'],
  ]
  const [size, letter] = steps.find(([size]) => Math.abs(value) >= size) ?? [1, '']
  const scaled = value / (letter === ' k' ? 1e3 : size)
  const digits = Math.abs(scaled) >= 100 ? 0 : Math.abs(scaled) >= 10 ? 1 : 2
  return `${scaled.toFixed(digits)}${letter}`
}

const MICRO = 1e6

/** A figure in its reading, with the middle half of its runs. */
export const readingOf = (figure: Figure): string => {
  const { workload, seconds } = figure
  if (workload.reading === 'time') {
    const of = (time: number): string => short((time / workload.amount) * MICRO)
    return `${of(seconds.median)} µs (${of(seconds.low)}–${of(seconds.high)})`
  }
  return `${short(rateOf(figure))}/s (${short(workload.amount / seconds.high)}–${short(workload.amount / seconds.low)})`
}

const ratioText = (ratio: Spread | undefined): string =>
  ratio === undefined ? '' : `${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)}–${ratio.high.toFixed(2)})`

const isFigure = (outcome: Outcome): outcome is Figure => outcome.tag === 'Figure'

const find = (
  figures: readonly Figure[],
  contestant: Contestant,
  { workload, threads }: { readonly workload: Workload; readonly threads: number },
): Figure | undefined =>
  figures.find(
    (figure) =>
      figure.contestant === contestant &&
      figure.workload.name === workload.name &&
      (figure.threads === threads || contestant === 'wasm'),
  )

const workloadsOf = (figures: readonly Figure[]): readonly Workload[] => [
  ...new Map(figures.map(({ workload }) => [workload.name, workload])).values(),
]

const present = (figures: readonly Figure[]): readonly Contestant[] =>
  CONTESTANTS.filter((contestant) => figures.some((figure) => figure.contestant === contestant))

const comparison = (figures: readonly Figure[], workloads: readonly Workload[], threads: number): string => {
  const others = present(figures).filter((contestant) => contestant !== REFERENCE)
  const header = ['Work', NAMES[REFERENCE], ...others.flatMap((other) => [NAMES[other], 'ratio'])]
  const rows = workloads.map((workload) => {
    const ours = find(figures, REFERENCE, { workload, threads })
    return [
      `${workload.title} (${workload.unit})`,
      ours === undefined ? '' : readingOf(ours),
      ...others.flatMap((other) => {
        const theirs = find(figures, other, { workload, threads })
        return theirs === undefined ? ['', ''] : [readingOf(theirs), ratioText(theirs.ratio)]
      }),
    ]
  })
  return table(header, rows)
}

const scaling = (figures: readonly Figure[], threads: number): string => {
  const contestants = present(figures).filter((contestant) => contestant !== 'wasm')
  const workloads = workloadsOf(figures.filter((figure) => figure.threads === 1 && figure.contestant !== 'wasm'))
  const rows = workloads.map((workload) => [
    workload.title,
    ...contestants.map((contestant) => {
      const [one, many] = [1, threads].map((threads) => find(figures, contestant, { workload, threads }))
      return one === undefined || many === undefined
        ? ''
        : `${(one.seconds.median / many.seconds.median).toFixed(2)} (${short(rateOf(one))}/s, ${short(rateOf(many))}/s)`
    }),
  ])
  return table(['Work', ...contestants.map((contestant) => NAMES[contestant])], rows)
}

const memory = (figures: readonly Figure[], threads: number): string => {
  const contestants = present(figures)
  const chosen = workloadsOf(figures).filter(({ unit, name }) => unit === 'tokens' || name === 'add-and-read')
  return table(
    ['Work', ...contestants.map((contestant) => NAMES[contestant])],
    chosen.map((workload) => [
      workload.name === 'add-and-read' ? 'Nothing but one addition: the program itself' : workload.title,
      ...contestants.map((contestant) => find(figures, contestant, { workload, threads })?.peakMiB.toFixed(0) ?? ''),
    ]),
  )
}

const absences = (outcomes: readonly Outcome[]): string =>
  outcomes
    .filter((outcome): outcome is Absent => outcome.tag === 'Absent')
    .map(({ contestant, workload, threads, problem }) => {
      const where = workload === undefined ? '' : `, ${workload.name}, ${threads} thread${threads === 1 ? '' : 's'}`
      return `- ${NAMES[contestant]}${where}: ${problem}`
    })
    .join('\n')

const engineCounts = (figures: readonly Figure[]): string => {
  const ours = figures.filter(({ contestant }) => contestant === REFERENCE)
  const total = (of: (figure: Figure) => number): number => ours.reduce((sum, figure) => sum + of(figure), 0)
  const runs = total((figure) => figure.runs)
  return `In ${runs.toLocaleString('en-US')} timed runs onnxruntime compiled ${total((f) => f.compiles ?? 0)} graphs and fell back to the cpu backend ${total((f) => f.fallbacks ?? 0)} times.`
}

const intro = (figures: readonly Figure[], here: Circumstances): string => {
  const versions = present(figures).map((contestant) => {
    const figure = figures.find((figure) => figure.contestant === contestant)!
    return `${NAMES[contestant]}: ${contestant === 'torch' ? 'torch ' : ''}${figure.version}`
  })
  return `# Speed of the engine

This page is written by \`${here.command}\`. Do not edit it.

- Host: ${here.host.cpu}, ${here.host.cores} cores, ${here.memoryGiB.toFixed(0)} GiB of memory, ${here.system}, Node ${here.host.node.slice(1)}. Date: ${here.date}.
- Load average of one minute: ${here.load[0].toFixed(1)} before, ${here.load[1].toFixed(1)} after. The programs take turns, so at most ${here.threads} threads are at work; a load well above that means that others used the machine, and that single figures are too low.
- Versions: ${versions.join('; ')}.
- Threads: ${here.threads}, in Node's wasm backend always 1.
- Each contestant and workload has a process of its own. It runs once to compile and once more to warm up. Then the contestants take turns (A B C A B C ...), ${here.rounds} rounds of ${here.turnSeconds} seconds each, or of one run where that lasts longer.
- A figure is the median of all runs, with the quartiles in parentheses. A ratio is the time of the other program over that of onnxruntime, so above 1 onnxruntime is faster: the median over the rounds, with the quartiles.
- All programs compute the same numbers from the same inputs and weights. Before it is timed, each computes a number from its results (for a training step the loss plus the norm of all gradients), and these agree to a relative difference of ${TOLERANCE}, or the figure is left out.
- The model is a Qwen2-shaped decoder: 4 heads, 2 key-value heads, SwiGLU of three times the width, vocabulary 256, tied embeddings, float32; a batch is 16 x 128 tokens. In PyTorch it is that of Transformers, with its default attention, no cache in training, and the fused AdamW.`
}

const section = (title: string, text: string): readonly string[] => (text === '' ? [] : [`## ${title}\n\n${text}`])

/** Writes the page. Lines without a figure are left empty in the tables and explained at the end. */
export const renderPage = (outcomes: readonly Outcome[], here: Circumstances): string => {
  const figures = outcomes.filter(isFigure)
  const { threads } = here
  const group = (accepts: (workload: Workload) => boolean): string => {
    const workloads = workloadsOf(figures).filter(accepts)
    return workloads.length === 0 ? '' : comparison(figures, workloads, threads)
  }
  const hasOne = threads > 1 && figures.some((figure) => figure.threads === 1 && figure.contestant !== 'wasm')
  return `${[
    intro(figures, here),
    ...section(
      'Models',
      group(({ unit }) => unit === 'tokens'),
    ),
    ...section(
      'Single operations',
      group(({ unit, reading }) => unit !== 'tokens' && reading === 'rate'),
    ),
    ...section(
      'Overhead',
      group(({ reading }) => reading === 'time'),
    ),
    ...section(
      'Threads',
      hasOne ? `How many times faster with ${threads} threads than with one.\n\n${scaling(figures, threads)}` : '',
    ),
    ...section('Peak memory', `MiB, the largest resident memory of the process.\n\n${memory(figures, threads)}`),
    ...section('Counters', engineCounts(figures)),
    ...section('Left out', absences(outcomes)),
  ].join('\n\n')}\n`
}
