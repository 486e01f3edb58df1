/** The report of a run: one self-contained HTML page. */
import {
  countOf,
  evenly,
  type FileFailure,
  type Files,
  htmlText,
  pagePolicy,
  scriptJson,
  visibleText,
} from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { DEFAULT_ALARM_LIMITS, watchSteps } from '../metrics/alarms.js'
import {
  type EvaluationRecord,
  type EvaluationSummary,
  type OverlapRecord,
  type RunSummary,
  type StepRecord,
  scoreText,
  type TrajectoryRecord,
} from '../metrics/records.js'
import type { AlarmOptions } from '../store/options.js'
import {
  openRun,
  type RunConfig,
  type RunFailure,
  type RunPaths,
  readMetrics,
  readRunTrajectories,
} from '../store/runFolder.js'
import { chartData } from './charts.js'
import { type ReportAssets, readReportAssets } from './reportAssets.js'

/** A summary for a report. Of a run that was killed, the engine is known in part. */
export type ReportSummary = Omit<RunSummary, 'engine'> & { readonly engine: Readonly<Record<string, unknown>> }

/** The records of a run. */
export interface ReportInput {
  /** The run folder. */
  readonly folder: string
  readonly summary: ReportSummary
  readonly config: RunConfig
  readonly alarms: AlarmOptions
  readonly metrics: readonly (StepRecord | EvaluationRecord)[]
  readonly trajectories: readonly TrajectoryRecord[]
}

/** The most steps whose trajectories are included, to keep the page small. */
const SHOWN_STEPS = 60

/** Escapes text of a run for the page. Characters that reorder or hide others are visible. */
const safeText = (text: string): string => htmlText(visibleText(text))

const visibleJson = (value: unknown): string =>
  scriptJson(JSON.parse(JSON.stringify(value), (_, each) => (typeof each === 'string' ? visibleText(each) : each)))

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

const duration = (seconds: number): string => {
  if (seconds < 120) return `${seconds.toFixed(0)} s`
  const minutes = Math.round(seconds / 60)
  return minutes < 120 ? `${minutes} min` : `${(seconds / 3600).toFixed(1)} h`
}

const direction = (before: number, after: number): string => {
  if (after > before) return 'rose'
  return after < before ? 'fell' : 'stayed'
}

const verdictOf = ({ name, score, measure, tasks, before, after }: EvaluationSummary): string => {
  const [from, to] = [before[score] ?? Number.NaN, after[score] ?? Number.NaN]
  return `${score} on ${countOf(tasks, 'task')} (${name}) ${direction(from, to)} from ${scoreText(measure, from)} to ${scoreText(measure, to)}`
}

/** Describes the change from the first number to the last. */
const course = (what: string, numbers: readonly number[]): string => {
  const [first = 0, last = 0] = [numbers[0], numbers.at(-1)]
  return `the ${what} ${direction(first, last)} from ${first.toFixed(3)} to ${last.toFixed(3)}`
}

const verdict = ({ rewardCurve, lossCurve, evaluated, ...summary }: ReportSummary): string => {
  const sampled = rewardCurve.length > 0 ? course('mean reward', rewardCurve) : course('loss', lossCurve)
  const learned = evaluated.length === 0 ? sampled : evaluated.map(verdictOf).join('; ')
  return (
    `In ${countOf(summary.steps, 'step')} (${duration(summary.secondsTotal)}), ${learned}.` +
    (summary.status === 'interrupted' ? ' The run did not reach its last step.' : '')
  )
}

const card = (label: string, value: string): string =>
  `<div class="card"><dt>${safeText(label)}</dt><dd>${safeText(value)}</dd></div>`

const whole = (x: number): string => Math.round(x).toLocaleString('en-US')

const evaluationCards = ({ name, score, measure, before, after, worstLate }: EvaluationSummary): readonly string[] => [
  card(
    `${name}: ${score}`,
    `${scoreText(measure, before[score] ?? Number.NaN)} → ${scoreText(measure, after[score] ?? Number.NaN)}`,
  ),
  card(`${name}: worst in the second half`, scoreText(measure, worstLate)),
]

/** Returns a card with a rate in tokens per second, or nothing if the rate is 0. */
const speedCard = (label: string, rate: number): readonly string[] => (rate === 0 ? [] : [card(label, whole(rate))])

const cards = (summary: ReportSummary): string => {
  const { generation, training } = summary.tokensPerSecond
  return [
    ...summary.evaluated.flatMap(evaluationCards),
    ...(summary.best
      ? [
          card(
            `Best, after ${countOf(summary.best.step, 'step')}`,
            scoreText(summary.evaluated[0]?.measure ?? 'return', summary.best.value),
          ),
        ]
      : []),
    ...speedCard('Tokens sampled / s', generation),
    ...speedCard('Tokens trained / s', training),
    ...(generation === 0
      ? []
      : [card('Largest log-prob gap', summary.maxLogProbGap === 0 ? '0' : summary.maxLogProbGap.toExponential(1))]),
  ].join('')
}

const PHASES: readonly (readonly [keyof RunSummary['seconds'], string])[] = [
  ['generation', 'Generation'],
  ['training', 'Training'],
  ['environment', 'Environment'],
  ['reference', 'Reference model'],
  ['evaluation', 'Evaluation'],
  ['checkpoint', 'Checkpoints'],
  ['weightSync', 'Weight sync'],
]

/** Renders the time spent in each phase, as a stacked bar and a table. */
const phases = ({ seconds, secondsTotal }: ReportSummary): string => {
  const known = PHASES.reduce((sum, [name]) => sum + (seconds[name] ?? 0), 0)
  const rows = [
    ...PHASES.flatMap(([name, label]) => {
      const value = seconds[name]
      return value === undefined ? [] : [{ id: String(name), label, value }]
    }),
    { id: 'other', label: 'Start and other', value: Math.max(0, secondsTotal - known) },
  ]
  const total = rows.reduce((sum, { value }) => sum + value, 0) || 1
  const parts = rows
    .map(({ id, value }) => `<span class="phase-${id}" style="flex-grow:${(value / total).toFixed(5)}"></span>`)
    .join('')
  const table = rows
    .map(
      ({ id, label, value }) =>
        `<tr><th scope="row"><i class="swatch phase-${id}"></i>${label}</th><td>${value.toFixed(2)} s</td><td>${percent(value / total)}</td></tr>`,
    )
    .join('')
  return `<div class="bar" role="img" aria-label="Shares of the phases; the table below has the numbers">${parts}</div><table class="numbers"><tbody>${table}</tbody></table>`
}

const tableOf = (entries: Iterable<readonly [string, unknown]>): string => {
  const rows = [...entries].map(([name, value]) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    return `<tr><th scope="row">${safeText(name)}</th><td>${safeText(text)}</td></tr>`
  })
  return `<table class="settings"><tbody>${rows.join('')}</tbody></table>`
}

/** Flattens nested settings to dotted paths. */
const flat = (record: object, path = ''): readonly (readonly [string, unknown])[] =>
  Object.entries(record).flatMap(([name, value]: readonly [string, unknown]) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? flat(value, `${path}${name}.`)
      : [[`${path}${name}`, value] as const],
  )

/** Renders the alarms of the run. Returns an empty text without alarms. */
const alarmList = ({ metrics, alarms: { mode, limits = DEFAULT_ALARM_LIMITS } }: ReportInput): string => {
  if (mode === 'off') return ''
  const steps = metrics.filter((record) => record.type === 'step')
  const { alarms } = watchSteps(steps, limits)
  if (alarms.length === 0) return ''
  const items = alarms.map(({ step, message }) => `<li>Step ${step}: ${safeText(message)}</li>`)
  return `<section>\n<h2>Alarms</h2>\n<ul class="alarms">${items.join('')}</ul>\n</section>\n`
}

/** Renders the statistics of asynchronous sampling. Returns an empty text for synchronous runs. */
const overlapPart = (metrics: ReportInput['metrics']): string => {
  const records = metrics.flatMap((record) => (record.type === 'step' && record.overlap ? [record.overlap] : []))
  if (records.length === 0) return ''
  const total = (name: keyof OverlapRecord): number => records.reduce((sum, record) => sum + (record[name] ?? 0), 0)
  const rows = [
    ['Mean lag of tokens, updates', (total('meanLag') / records.length).toFixed(2)],
    ['Largest lag', String(Math.max(...records.map(({ maxLag }) => maxLag)))],
    ['Groups dropped: stale, failed, without a signal', `${total('stale')}, ${total('failed')}, ${total('filtered')}`],
    ...(records.some(({ samplingSeconds }) => samplingSeconds !== null)
      ? ([
          ['Sampling', `${total('samplingSeconds').toFixed(1)} s`],
          ['Sampling while learning', `${total('bothSeconds').toFixed(1)} s`],
        ] as const)
      : []),
  ] as const
  return `<section>\n<h2>Sampling beside learning</h2>\n${tableOf(rows)}\n</section>\n`
}

const shownTrajectories = (trajectories: readonly TrajectoryRecord[]): readonly TrajectoryRecord[] => {
  const steps = [...new Set(trajectories.map(({ step }) => step))]
  const shown = new Set(evenly(steps, SHOWN_STEPS))
  return trajectories.filter(({ step }) => shown.has(step))
}

const textOrNull = (value: unknown): string | null =>
  value === null || value === undefined ? null : typeof value === 'string' ? value : JSON.stringify(value)

/** `2 threads`; nothing where the engine does not report a number. */
const threadText = (threads: unknown): string | readonly [] =>
  Number(threads) >= 1 ? `${threads} ${Number(threads) === 1 ? 'thread' : 'threads'}` : []

/** Renders what identifies the run: its name, start, version, model, data set, command, machine. */
const factList = ({ folder, config, summary }: ReportInput): string => {
  const { start, settings, recipe } = config
  const { threads } = summary.engine
  const facts: readonly (readonly [string, string | null | undefined])[] = [
    ['Run', folder.split('/').at(-1)],
    ['Recipe', recipe?.name],
    ['Started', start?.at.slice(0, 16).replace('T', ' ').concat(' UTC')],
    ['Version', start && `tandem-rl ${start.version}`],
    ['Model', textOrNull(settings.model)],
    ['Data set', textOrNull(settings.dataset)],
    ['Command', start?.command],
    ['Machine', start && [start.processor, threadText(threads), `Node ${start.node}`].flat().join(', ')],
  ]
  const rows = facts.flatMap(([name, value]) => (value ? [`<dt>${name}</dt><dd>${safeText(value)}</dd>`] : []))
  return `<dl class="about">${rows.join('')}</dl>`
}

/** The evaluations whose samples are shown: the first and the last of each evaluator. */
const sampledEvaluations = (metrics: ReportInput['metrics']): readonly EvaluationRecord[] => {
  const sampled = metrics.filter(
    (record): record is EvaluationRecord => record.type === 'evaluation' && 'samples' in record,
  )
  const names = [...new Set(sampled.map(({ name }) => name))]
  return names.flatMap((name) => {
    const own = sampled.filter((each) => each.name === name)
    return own.length === 1 ? own : [own[0]!, own.at(-1)!]
  })
}

/** Renders samples of evaluations. Returns an empty text for runs that recorded none. */
const evaluationSamples = (metrics: ReportInput['metrics']): string => {
  const shown = sampledEvaluations(metrics)
  if (shown.length === 0) return ''
  const parts = shown.map(({ name, step, samples = [] }) => {
    const items = samples.map(
      ({ query, completion, score }) =>
        `<div class="completion"><p>${safeText(query)}</p><div class="tokens">${safeText(completion)}</div><p class="facts">score ${Number(score.toPrecision(4))}</p></div>`,
    )
    return `<h3>${safeText(name)}, after ${countOf(step, 'step')}</h3>${items.join('')}`
  })
  return `<section>\n<h2>Samples of evaluations</h2>\n${parts.join('\n')}\n</section>\n`
}

const page = (input: ReportInput, assets: ReportAssets): string => {
  const { summary, config, metrics, trajectories } = input
  const shown = shownTrajectories(trajectories)
  const left = trajectories.length - shown.length
  const data = { charts: chartData(metrics), trajectories: shown }
  const environment = { ...summary.engine, policyVersion: summary.policyVersion }
  const title = config.recipe?.name ?? 'Training run'
  const policy = pagePolicy(liveDigest, { scripts: [assets.chartScript, assets.script], styles: 'inline' })
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tandem run: ${safeText(title)}</title>
<style>${assets.chartStyle}</style>
<style>${assets.style}</style>
</head>
<body>
<main>
<header>
<h1>${safeText(title)}</h1>
<p class="verdict">${safeText(verdict(summary))}</p>
${factList(input)}
<dl class="cards">${cards(summary)}</dl>
</header>
${alarmList(input)}<section>
<h2>What was learned</h2>
<div id="chart-learning" class="chart large"></div>
</section>
<section>
<h2>How the training went</h2>
<div id="chart-grid" class="grid"></div>
</section>
<section>
<h2>Where the time went</h2>
${phases(summary)}
</section>
${overlapPart(metrics)}${evaluationSamples(metrics)}<section>
<h2>Completions of training</h2>
<div id="trajectories"><p>This part needs JavaScript.</p></div>
${left > 0 ? `<p class="note">${left} more completions are in trajectories.jsonl.</p>` : ''}
</section>
<section>
<details><summary>Settings</summary>${tableOf(flat(config.settings))}</details>
<details><summary>Parts of the run</summary>${tableOf(flat(config.run))}</details>
<details><summary>Engine and model</summary>${tableOf(Object.entries(environment))}</details>
</section>
</main>
<script type="application/json" id="run-data">${visibleJson(data)}</script>
<script>${assets.chartScript}</script>
<script>${assets.script}</script>
</body>
</html>
`
}

/**
 * Renders the report of a run as one HTML page: verdict, curves, phase times, and sampled
 * completions with tokens colored by log-probability or advantage. Scripts, styles and data are
 * inlined; the page makes no network requests.
 *
 * Text from models and data sets is escaped, so the page never executes it.
 *
 * Errors   `Left(FileFailure)` if an asset of the page is missing: the installation is incomplete.
 */
export const renderReport = (input: ReportInput, files: Files = liveFiles): TE.TaskEither<FileFailure, string> =>
  pipe(
    readReportAssets(files),
    TE.map((assets) => page(input, assets)),
  )

/** Writes summary.json and report.html from the records of the run. */
export const finishRun = (
  files: Files,
  paths: RunPaths,
  { summary, alarms }: { readonly summary: RunSummary } & Pick<ReportInput, 'alarms'>,
): TE.TaskEither<RunFailure | FileFailure, void> =>
  pipe(
    files.write(paths.summary, `${JSON.stringify(summary, undefined, 2)}\n`),
    TE.chainW(() => readMetrics(files, paths)),
    TE.bindTo('metrics'),
    TE.bindW('trajectories', () => readRunTrajectories(files, paths)),
    TE.bindW('config', () =>
      pipe(
        openRun(files, paths.folder),
        TE.map(({ config }) => config),
      ),
    ),
    TE.bindW('page', ({ metrics, trajectories, config }) =>
      renderReport({
        folder: paths.folder,
        summary: { ...summary, engine: { ...summary.engine } },
        config,
        alarms,
        metrics,
        trajectories,
      }),
    ),
    TE.chainW(({ page }) => files.write(paths.report, page)),
  )
