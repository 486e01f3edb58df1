/** The health of a run: alarms, groups without a signal, staleness, phases, memory and speed. */
import { actorLanes } from './actors.js'
import { get, listen, runPath } from './api.js'
import { chart } from './charts.js'
import { card, fill, h, table } from './dom.js'
import { bytes, number, percent } from './format.js'
import { timeline } from './histogram.js'
import { address, go } from './router.js'
import { alarmMarks } from './run.js'
import { frame, loadRun } from './runFrame.js'
import { visible } from './visible.js'

const alarmTable = (run, opened) => {
  const rows = run.alarms.map((each) => [
    { value: h('a', { href: address(['run', run.id, 'rollouts'], { step: each.step }) }, each.step), class: 'num' },
    h('span', { class: `badge ${String(each.step) === opened ? 'bad' : 'warn'}` }, visible(each.alarm)),
    visible(each.message),
    { value: each.since, class: 'num' },
    { value: number(each.value), class: 'num' },
    { value: number(each.limit), class: 'num' },
    each.batch === null ? 'not saved' : h('span', { class: 'mono' }, visible(each.batch)),
  ])
  const numeric = (value) => ({ value, class: 'num' })
  const head = [
    numeric('Step'),
    'Alarm',
    'Message',
    numeric('Since'),
    numeric('Value'),
    numeric('Limit'),
    'Saved batch',
  ]
  return rows.length === 0 ? h('p', { class: 'pad muted' }, 'No alarm was raised.') : table(head, rows, 'Alarms')
}

const DRAWN = 60

/** Steps whose lanes are drawn: the newest of those. */
const IN_LANES = 8

/** The indices of the steps that the timeline draws: all, or the newest. */
const drawnSteps = (count, from) => Array.from({ length: Math.min(DRAWN, count - from) }, (_, i) => from + i)

const has = (values) => values.some((value) => value !== null && value !== undefined)

const CHARTS = [
  [
    'Groups without a signal (share)',
    '--c1',
    ({ groups }) =>
      groups.withoutSignal.map((value, i) =>
        value === null ? null : value / Math.max(1, (groups.used[i] ?? 0) + (groups.dropped[i] ?? 0)),
      ),
  ],
  ['Dropped groups', '--c7', ({ groups }) => groups.dropped],
  ['Staleness: mean lag in updates', '--c3', ({ staleness }) => staleness.mean],
  ['Staleness: largest lag in updates', '--c3', ({ staleness }) => staleness.max],
  ['Tokens sampled per second', '--c0', ({ tokensPerSecond }) => tokensPerSecond.generation],
  ['Tokens trained per second', '--c1', ({ tokensPerSecond }) => tokensPerSecond.training],
  [
    'Resident memory (MB)',
    '--c4',
    ({ memory }) => memory.resident.map((value) => (value === null ? null : value / 1e6)),
  ],
  ['Compiled graphs', '--c5', ({ memory }) => memory.graphs],
]

const MISSING = { step: [], columns: {} }
const SIGNS = [
  'truncated',
  'update.entropy',
  'update.ess',
  'update.maxLogProbGap',
  'completionTokens',
  'update.clipFraction',
]

/** The last value of each sign, for the strip at the top. */
const strip = (run, phases, metrics) => {
  const last = (values) => (values ?? []).filter((value) => value !== null).at(-1)
  const cell = (label, value, kind) =>
    h('div', { class: 'tile' }, h('span', { class: 'muted small' }, label), h('strong', { class: kind }, value))
  const truncated = last(metrics.columns.truncated)
  const memory = last(phases.memory.resident)
  return h(
    'div',
    { class: 'tiles' },
    cell('Alarms', run.alarms.length, run.alarms.length === 0 ? 'ok' : 'wrong'),
    truncated === undefined ? null : cell('Truncated', percent(truncated), truncated > 0.5 ? 'wrong' : 'ok'),
    last(metrics.columns['update.maxLogProbGap']) === undefined
      ? null
      : cell(
          'Sampler–trainer gap',
          number(last(metrics.columns['update.maxLogProbGap'])),
          last(metrics.columns['update.maxLogProbGap']) > 1 ? 'wrong' : 'ok',
        ),
    last(metrics.columns['update.ess']) === undefined
      ? null
      : cell(
          'Effective sample size',
          number(last(metrics.columns['update.ess'])),
          last(metrics.columns['update.ess']) < 0.5 ? 'wrong' : 'ok',
        ),
    memory === undefined ? null : cell('Memory', bytes(memory)),
    last(phases.tokensPerSecond.generation) === undefined
      ? null
      : cell('Tokens sampled / s', number(last(phases.tokensPerSecond.generation))),
  )
}

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const healthView = async ({ path: [, id], query }, signal) => {
  const load = () =>
    Promise.all([
      loadRun(id, signal),
      get(`${runPath(id)}/phases`, {}, signal),
      get(`${runPath(id)}/metrics`, {}, signal).catch(() => MISSING),
    ])
  let [run, phases, metrics] = await load()
  let from = Math.max(0, phases.step.length - DRAWN)
  const top = h('div')
  const lanes = h('div', { class: 'pad' })
  const actors = h('div', { class: 'pad' })
  const [place, lanePlace] = [h('span', { class: 'muted small' }), h('span', { class: 'muted small' })]
  const openStep = (step) => go(address(['run', id, 'rollouts'], { step }))
  const hrefOf = (step) => address(['run', id, 'rollouts'], { step })
  const drawLanes = () => {
    const drawn = drawnSteps(phases.step.length, from)
    fill(
      lanes,
      phases.step.length === 0 ? h('p', { class: 'muted' }, 'The log has no times.') : timeline(phases, drawn, hrefOf),
    )
    const inLanes = drawn.slice(-IN_LANES)
    fill(
      actors,
      inLanes.length === 0 ? h('p', { class: 'muted' }, 'The log has no times.') : actorLanes(phases, inLanes),
    )
    lanePlace.textContent =
      inLanes.length === 0 ? '' : `steps ${phases.step[inLanes[0]]} to ${phases.step[inLanes[inLanes.length - 1]]}`
    place.textContent =
      drawn.length === 0 ? '' : `steps ${phases.step[drawn[0]]} to ${phases.step[drawn[drawn.length - 1]]}`
  }
  const turn = (by) => {
    from = Math.max(0, Math.min(phases.step.length - DRAWN, from + by * DRAWN))
    drawLanes()
  }
  const marks = alarmMarks(run)
  const made = []
  const add = (title, color, valuesOf) => {
    if (!has(valuesOf())) return
    const curves = () => [{ label: title, color, values: valuesOf() }]
    const each = chart({ title, steps: phases.step, curves: curves(), marks, onStep: openStep, signal })
    made.push({ element: each.element, refresh: () => each.update({ steps: phases.step, curves: curves() }) })
  }
  for (const [title, color, valuesOf] of CHARTS) add(title, color, () => valuesOf(phases))
  for (const name of SIGNS) {
    if (!has(metrics.columns[name] ?? [])) continue
    const curves = () => [{ label: name, color: '--c6', values: metrics.columns[name] }]
    const each = chart({ title: name, steps: metrics.step, curves: curves(), marks, onStep: openStep, signal })
    made.push({ element: each.element, refresh: () => each.update({ steps: metrics.step, curves: curves() }) })
  }
  const draw = () => {
    fill(top, strip(run, phases, metrics))
    drawLanes()
  }
  draw()
  const refresh = async () => {
    ;[run, phases, metrics] = await load()
    draw()
    for (const each of made) each.refresh()
  }
  signal.addEventListener('abort', listen(`${runPath(id)}/events`, { metrics: refresh }))
  const pager =
    phases.step.length <= DRAWN
      ? place
      : [
          place,
          h('button', { class: 'quiet', onclick: () => turn(-1) }, 'Earlier'),
          h('button', { class: 'quiet', onclick: () => turn(1) }, 'Later'),
        ]
  return {
    ...frame(run, 'health'),
    body: h(
      'div',
      { class: 'stack' },
      h('div', {}, h('div', { class: 'head' }, h('h1', {}, 'Health')), top),
      card('Alarms', null, alarmTable(run, query.alarm)),
      card('What waits on what', lanePlace, actors),
      card('Phases of each step', pager, lanes),
      card(
        'Signs',
        null,
        h(
          'div',
          { class: 'pad' },
          h(
            'div',
            { class: 'charts' },
            made.map(({ element }) => element),
          ),
        ),
      ),
    ),
  }
}
