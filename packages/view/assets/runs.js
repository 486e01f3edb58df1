/** The list of runs: search, state, curves, and selection for a comparison. */
import { get, isExported, listen, runPath } from './api.js'
import { sparkline, thinned } from './charts.js'
import { fill, h } from './dom.js'
import { ago, date, number, percent } from './format.js'
import { address, go, keepAddress } from './router.js'
import { editNote, named, stateBadge, tagList } from './runFrame.js'

const FIELDS = {
  tag: (run) => run.tags.join(' '),
  state: (run) => run.state,
  model: (run) => run.model ?? '',
}

/**
 * Checks that a run matches every word of a search. `tag:x`, `state:x` and `model:x` search in one
 * field.
 *
 * @param {object} run
 * @param {string} search
 */
const matches = (run, search) =>
  search
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
    .every((word) => {
      const [, field, rest] = /^(tag|state|model):(.*)$/.exec(word) ?? []
      if (field !== undefined) return FIELDS[field](run).toLowerCase().includes(rest)
      return [run.name, run.folder, run.recipe, run.model, run.data, run.note, run.tags.join(' ')]
        .join('\n')
        .toLowerCase()
        .includes(word)
    })

/** Fetches the reward curves of rows as they become visible. */
const sparks = (signal) => {
  const known = new Map()
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) if (isIntersecting) load(target)
  })
  signal.addEventListener('abort', () => watcher.disconnect())
  const load = async (cell) => {
    watcher.unobserve(cell)
    const { run, step } = cell.dataset
    const key = `${run} ${step}`
    try {
      if (!known.has(key)) known.set(key, get(`${runPath(run)}/metrics`, { names: 'reward' }, signal))
      const { columns } = await known.get(key)
      const values = (columns.reward ?? []).filter((value) => value !== null)
      if (values.length > 1) {
        fill(
          cell,
          sparkline(thinned(values, 120), `Reward from ${number(values[0])} to ${number(values[values.length - 1])}`),
        )
      }
    } catch {
      // Without a curve the cell stays empty; the row has the newest value.
    }
  }
  return (run) => {
    const cell = h('span', { class: 'spark-cell', data: { run: run.id, step: String(run.step) } })
    watcher.observe(cell)
    return cell
  }
}

const LAST = [
  ['reward', 'Reward', number],
  ['accuracy', 'Accuracy', percent],
]

/** @type {Set<string>} runs to compare; they stay selected while the page is open */
const selected = new Set()

/** @param {import('./router.js').Route} route @param {AbortSignal} signal */
export const runsView = async (route, signal) => {
  let { runs, version } = await get('/api/runs', {}, signal)
  let cursor = 0
  const search = h('input', {
    type: 'search',
    class: 'grow',
    'aria-label': 'Search runs',
    placeholder: 'Search: words, tag:baseline, state:running, model:qwen …',
    value: route.query.q ?? '',
  })
  const body = h('tbody')
  const count = h('span', { class: 'muted small' })
  const compare = h('button', { class: 'primary', disabled: true }, 'Compare')
  const sparkOf = sparks(signal)
  const shown = () => runs.filter((run) => matches(run, search.value))
  const openRun = (run) => go(address(['run', run.id]))
  const openCompare = () => go(address(['compare'], { runs: [...selected].join(',') }))
  compare.addEventListener('click', openCompare)
  const drawSelection = () => {
    compare.disabled = selected.size < 2
    compare.textContent = selected.size < 2 ? 'Compare' : `Compare ${selected.size} runs`
  }
  const toggle = (run) => {
    if (!selected.delete(run.id)) selected.add(run.id)
    draw()
  }
  const row = (run, i) =>
    h(
      'tr',
      {
        'aria-current': i === cursor ? 'true' : null,
        onclick: (event) => (event.target.closest('a, input') === null ? openRun(run) : null),
      },
      h(
        'td',
        { class: 'check' },
        h('input', {
          type: 'checkbox',
          checked: selected.has(run.id),
          'aria-label': `Select ${run.name} to compare`,
          onchange: () => toggle(run),
        }),
      ),
      h(
        'td',
        { class: 'run-name' },
        h('a', { href: address(['run', run.id]) }, named(run.name)),
        tagList(run.tags),
        h(
          'div',
          { class: 'muted small clip' },
          named([run.recipe ?? 'program', run.model, run.data].filter((each) => each !== null).join(' · ')),
        ),
        run.note === '' ? null : h('div', { class: 'small clip' }, named(run.note)),
      ),
      h('td', {}, stateBadge(run.state)),
      h('td', { class: 'num' }, run.step, run.steps === null ? null : h('span', { class: 'muted' }, ` / ${run.steps}`)),
      h('td', {}, sparkOf(run)),
      LAST.map(([name, , format]) =>
        h('td', { class: `num${run.last[name] === undefined ? ' is-missing' : ''}` }, format(run.last[name])),
      ),
      h('td', { class: 'muted when', title: date(run.updatedAt) }, ago(run.updatedAt)),
    )
  const draw = () => {
    const list = shown()
    cursor = Math.max(0, Math.min(cursor, list.length - 1))
    fill(body, list.map(row))
    count.textContent =
      list.length === runs.length
        ? `${runs.length} ${runs.length === 1 ? 'run' : 'runs'}`
        : `${list.length} of ${runs.length} runs`
    none.hidden = list.length > 0
    drawSelection()
  }
  const move = (by) => {
    cursor += by
    draw()
    body.children[cursor]?.scrollIntoView({ block: 'nearest' })
  }
  const none = h(
    'div',
    { class: 'empty' },
    h('h2', {}, 'No runs'),
    h(
      'p',
      {},
      'Train one with ',
      h('code', {}, 'tandem train --out runs/first'),
      ', or start the viewer on a folder that has some: ',
      h('code', {}, 'tandem view runs'),
      '.',
    ),
  )
  search.addEventListener('input', () => {
    cursor = 0
    keepAddress(address(['runs'], { q: search.value }))
    draw()
  })
  const refresh = async () => {
    ;({ runs } = await get('/api/runs', {}, signal))
    draw()
  }
  const head = ['', 'Run', 'State', 'Step', 'Reward curve', ...LAST.map(([, label]) => label), 'Updated']
  const numeric = new Set(['Step', ...LAST.map(([, label]) => label)])
  draw()
  signal.addEventListener('abort', listen('/api/events', { runs: refresh }))
  const edit = () => {
    const run = shown()[cursor]
    if (run?.id !== undefined && !isExported) editNote(run, refresh)
  }
  return {
    title: 'Runs',
    crumbs: [{ label: 'Runs' }],
    body: h(
      'div',
      {},
      h(
        'div',
        { class: 'head' },
        h('h1', {}, 'Runs'),
        count,
        h('span', { class: 'muted small wide-only' }, `Tandem ${version}`),
      ),
      h('div', { class: 'tools sticky' }, search, compare),
      h(
        'div',
        { class: 'card scroll' },
        h(
          'table',
          { class: 'rows runs' },
          h(
            'thead',
            {},
            h(
              'tr',
              {},
              head.map((label) =>
                h(
                  'th',
                  { class: numeric.has(label) ? 'num' : null },
                  label === '' ? h('span', { class: 'hidden' }, 'Select') : label,
                ),
              ),
            ),
          ),
          body,
        ),
        none,
      ),
    ),
    keys: [
      { keys: 'j, ArrowDown', label: 'Next run', run: () => move(1) },
      { keys: 'k, ArrowUp', label: 'Previous run', run: () => move(-1) },
      { keys: 'Enter', label: 'Open the run', run: () => shown()[cursor] !== undefined && openRun(shown()[cursor]) },
      {
        keys: 'x',
        label: 'Select the run for a comparison',
        run: () => shown()[cursor] !== undefined && toggle(shown()[cursor]),
      },
      { keys: 'c', label: 'Compare the selected runs', run: () => (selected.size > 1 ? openCompare() : null) },
      { keys: 'e', label: 'Edit name, tags and note', run: edit },
    ],
  }
}
