/** Several runs in the same charts, and the settings in which they differ. */
import { get } from './api.js'
import { chartGrid } from './chartGrid.js'
import { card, h, table } from './dom.js'
import { number, setting } from './format.js'
import { address } from './router.js'
import { named, stateBadge } from './runFrame.js'
import { visible } from './visible.js'

const COLORS = 8

const colorOf = (i) => `--c${i % COLORS}`

/** Brings the columns of all runs to the same steps. */
const alignedCurves = ({ runs, metrics }) => {
  const at = metrics.map(({ step }) => new Map(step.map((value, i) => [value, i])))
  return (name) => {
    const having = runs.map((_, i) => i).filter((i) => metrics[i].columns[name]?.some((value) => value !== null))
    const steps = [...new Set(having.flatMap((i) => metrics[i].step))].sort((a, b) => a - b)
    const curves = having.map((i) => ({
      label: runs[i].name,
      color: colorOf(i),
      values: steps.map((step) => metrics[i].columns[name][at[i].get(step)] ?? null),
    }))
    return { steps, curves }
  }
}

const settingsTable = ({ runs, settings }) => {
  if (settings.length === 0) return h('p', { class: 'pad muted' }, 'The settings are equal.')
  const rows = settings.map(({ path, values }) => [
    h('span', { class: 'mono' }, visible(path)),
    ...values.map((value) => h('span', { class: 'mono wrap' }, visible(setting(value)))),
  ])
  return table(
    [
      'Setting',
      ...runs.map((run, i) => [
        h('i', { class: 'swatch', style: { background: `var(${colorOf(i)})` } }),
        named(run.name),
      ]),
    ],
    rows,
    'Settings that differ',
  )
}

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const compareView = async ({ query }, signal) => {
  const answer = await get('/api/compare', { runs: query.runs ?? '' }, signal)
  const { runs, metricNames } = answer
  const grid = chartGrid({ names: metricNames, curvesOf: alignedCurves(answer), signal })
  const legend = runs.map((run, i) =>
    h(
      'li',
      {},
      h('i', { class: 'swatch', style: { background: `var(${colorOf(i)})` } }),
      h('a', { href: address(['run', run.id]) }, named(run.name)),
      stateBadge(run.state),
      h('span', { class: 'muted' }, run.last.reward === undefined ? '' : `reward ${number(run.last.reward)}`),
    ),
  )
  return {
    title: 'Compare',
    crumbs: [{ label: 'Runs', href: address(['runs']) }, { label: 'Compare' }],
    body: h(
      'div',
      { class: 'stack' },
      h('div', { class: 'head' }, h('h1', {}, `Compare ${runs.length} runs`)),
      h('ul', { class: 'legend runs-legend' }, legend),
      card('Curves', grid.tools, h('div', { class: 'pad' }, grid.element)),
      card('Settings that differ', null, settingsTable(answer)),
    ),
  }
}
