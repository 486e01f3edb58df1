/** The report of a run: one HTML page that needs nothing else. */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files } from '../core/capabilities.js'
import type { FileFailure } from '../core/failure.js'
import { liveFiles } from '../live/files.js'
import { alarmLimits, watchSteps } from './alarms.js'
import type { EvaluationRecord, OverlapRecord, RunSummary, StepRecord, TrajectoryRecord } from './records.js'
import type { RunSettings } from './settings.js'

/** What a run wrote down. */
export interface ReportInput {
  readonly summary: RunSummary
  readonly settings: RunSettings
  readonly metrics: readonly (StepRecord | EvaluationRecord)[]
  readonly trajectories: readonly TrajectoryRecord[]
}

/** Trajectories of at most this many steps go into the page, so that a long run does not make it unreadable. */
const SHOWN_STEPS = 60

/** Steps in the charts: a screen does not show more, and every record is in metrics.jsonl. */
const CHART_STEPS = 2000

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => ESCAPES[character]!)

/** JSON that can stand inside a script element: nothing in it ends the element or opens a comment. */
const scriptJson = (value: unknown): string => JSON.stringify(value).replaceAll('<', '\\u003c')

/** `count` of the items at even distances, the first and the last among them. */
const evenly = <T>(items: readonly T[], count: number): readonly T[] => {
  if (items.length <= count) return items
  return Array.from({ length: count }, (_, i) => items[Math.round((i * (items.length - 1)) / (count - 1))]!)
}

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

const verdict = ({ accuracyBefore: before, accuracyAfter: after, ...summary }: RunSummary): string =>
  `Accuracy on ${summary.evalProblems} held-out problems ${direction(before, after)} from ${percent(before)} to ${percent(after)} ` +
  `in ${summary.steps} steps (${duration(summary.secondsTotal)}). ` +
  `Completions that work the problem out went from ${percent(summary.workedBefore)} to ${percent(summary.workedAfter)}.` +
  (summary.status === 'interrupted' ? ' The run was interrupted.' : '')

const card = (label: string, value: string): string =>
  `<div class="card"><dt>${escapeHtml(label)}</dt><dd>${escapeHtml(value)}</dd></div>`

const whole = (x: number): string => Math.round(x).toLocaleString('en-US')

const cards = (summary: RunSummary): string => {
  const { generation, training } = summary.tokensPerSecond
  return [
    card('Held-out accuracy', `${percent(summary.accuracyBefore)} → ${percent(summary.accuracyAfter)}`),
    card('Lowest in the second half', percent(summary.accuracyLowestLate)),
    ...(summary.best ? [card('Best', `${percent(summary.best.accuracy)} after ${summary.best.step} steps`)] : []),
    card('Worked out', `${percent(summary.workedBefore)} → ${percent(summary.workedAfter)}`),
    card('Tokens sampled / s', whole(generation)),
    card('Tokens trained / s', whole(training)),
    card('Largest log-prob gap', summary.maxLogProbGap === 0 ? '0' : summary.maxLogProbGap.toExponential(1)),
  ].join('')
}

const PHASES: readonly (readonly [keyof RunSummary['seconds'], string])[] = [
  ['generation', 'Generation'],
  ['training', 'Training'],
  ['environment', 'Environment'],
  ['evaluation', 'Evaluation'],
  ['checkpoint', 'Checkpoints'],
  ['weightSync', 'Weight sync'],
]

/** A bar in parts and its table: where the time went. */
const phases = ({ seconds, secondsTotal }: RunSummary): string => {
  const known = PHASES.reduce((sum, [name]) => sum + seconds[name], 0)
  const rows = [
    ...PHASES.map(([name, label]) => ({ id: String(name), label, value: seconds[name] })),
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
    return `<tr><th scope="row">${escapeHtml(name)}</th><td>${escapeHtml(text)}</td></tr>`
  })
  return `<table class="settings"><tbody>${rows.join('')}</tbody></table>`
}

/** The alarms of the run: nothing if there were none, or if nobody wanted any. */
const alarmList = ({ metrics, settings }: ReportInput): string => {
  if (settings.alarms === 'off') return ''
  const steps = metrics.filter((record) => record.type === 'step')
  const { alarms } = watchSteps(steps, alarmLimits(settings.alarmLimits))
  if (alarms.length === 0) return ''
  const items = alarms.map(({ step, message }) => `<li>Step ${step}: ${escapeHtml(message)}</li>`)
  return `<section>\n<h2>Alarms</h2>\n<ul class="alarms">${items.join('')}</ul>\n</section>\n`
}

/** How sampling went beside learning: nothing where they took turns. */
const overlapPart = (metrics: ReportInput['metrics']): string => {
  const records = metrics.flatMap((record) => (record.type === 'step' && record.overlap ? [record.overlap] : []))
  if (records.length === 0) return ''
  const total = (name: keyof OverlapRecord): number => records.reduce((sum, record) => sum + record[name], 0)
  const rows = [
    ['Mean lag of tokens, updates', (total('meanLag') / records.length).toFixed(2)],
    ['Largest lag', String(Math.max(...records.map(({ maxLag }) => maxLag)))],
    ['Groups dropped: stale, failed, without a signal', `${total('stale')}, ${total('failed')}, ${total('filtered')}`],
    ['Sampling', `${total('samplingSeconds').toFixed(1)} s`],
    ['Sampling while learning', `${total('bothSeconds').toFixed(1)} s`],
  ] as const
  return `<section>\n<h2>Sampling beside learning</h2>\n${tableOf(rows)}\n</section>\n`
}

/** The columns that the charts draw. */
const chartData = (metrics: ReportInput['metrics']) => {
  const steps = evenly(
    metrics.filter((record) => record.type === 'step'),
    CHART_STEPS,
  )
  const evaluations = metrics.filter((record) => record.type === 'evaluation')
  const column = (
    name: Exclude<keyof StepRecord, 'type' | 'seconds' | 'updates' | 'sampling' | 'correction' | 'overlap'>,
  ) => steps.map((record) => record[name])
  return {
    step: column('step'),
    reward: column('reward'),
    accuracy: column('accuracy'),
    worked: column('worked'),
    klToRef: column('klToRef'),
    entropy: column('entropy'),
    clipFraction: column('clipFraction'),
    gradNorm: column('gradNorm'),
    completionTokens: column('completionTokens'),
    truncated: column('truncated'),
    groupsWithoutSignal: column('groupsWithoutSignal'),
    stepSeconds: steps.map(({ seconds }) => Object.values(seconds).reduce((sum: number, x: number) => sum + x, 0)),
    evaluations: evaluations.map(({ step, accuracy, worked }) => ({ step, accuracy, worked })),
  }
}

const shownTrajectories = (trajectories: readonly TrajectoryRecord[]): readonly TrajectoryRecord[] => {
  const steps = [...new Set(trajectories.map(({ step }) => step))]
  const shown = new Set(evenly(steps, SHOWN_STEPS))
  return trajectories.filter(({ step }) => shown.has(step))
}

interface Assets {
  readonly chartScript: string
  readonly chartStyle: string
  readonly script: string
  readonly style: string
}

const readAssets = (files: Files): TE.TaskEither<FileFailure, Assets> => {
  const { resolve } = createRequire(import.meta.url)
  const own = (name: string): string => fileURLToPath(new URL(`../../assets/report/${name}`, import.meta.url))
  return pipe(
    TE.Do,
    TE.bind('chartScript', () => files.readText(resolve('uplot/dist/uPlot.iife.min.js'))),
    TE.bind('chartStyle', () => files.readText(resolve('uplot/dist/uPlot.min.css'))),
    TE.bind('script', () => files.readText(own('page.js'))),
    TE.bind('style', () => files.readText(own('page.css'))),
  )
}

const page = (input: ReportInput, assets: Assets): string => {
  const { summary, settings, metrics, trajectories } = input
  const shown = shownTrajectories(trajectories)
  const left = trajectories.length - shown.length
  const data = { charts: chartData(metrics), trajectories: shown }
  const environment = { ...summary.engine, parameters: summary.parameters, policyVersion: summary.policyVersion }
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tandem run: ${percent(summary.accuracyBefore)} to ${percent(summary.accuracyAfter)}, seed ${summary.seed}</title>
<style>${assets.chartStyle}</style>
<style>${assets.style}</style>
</head>
<body>
<main>
<header>
<h1>Training run, seed ${summary.seed}</h1>
<p class="verdict">${escapeHtml(verdict(summary))}</p>
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
${overlapPart(metrics)}<section>
<h2>Sampled completions</h2>
<div id="trajectories"><p>This part needs JavaScript.</p></div>
${left > 0 ? `<p class="note">${left} more completions are in trajectories.jsonl.</p>` : ''}
</section>
<section>
<details><summary>Settings</summary>${tableOf(Object.entries(settings))}</details>
<details><summary>Engine and model</summary>${tableOf(Object.entries(environment))}</details>
</section>
</main>
<script type="application/json" id="run-data">${scriptJson(data)}</script>
<script>${assets.chartScript}</script>
<script>${assets.script}</script>
</body>
</html>
`
}

/**
 * The report of a run as one HTML page: verdict, curves, phase times, and sampled completions whose tokens are colored by
 * log-probability or advantage. Scripts, styles and data are inside; the page asks the network for nothing.
 *
 * Everything that a model or a dataset wrote is escaped: the page runs no text of theirs.
 *
 * Errors   `Left(FileFailure)` if a file of the page's own scripts is missing: the installation is not complete.
 */
export const renderReport = (input: ReportInput, files: Files = liveFiles): TE.TaskEither<FileFailure, string> =>
  pipe(
    readAssets(files),
    TE.map((assets) => page(input, assets)),
  )
