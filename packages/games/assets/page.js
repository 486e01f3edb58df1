/** The script of the arena's report: games that can be stepped through. It reads the data that stands in the page. */
;(() => {
  const { games } = JSON.parse(document.getElementById('arena-data').textContent)
  const host = document.getElementById('games')
  host.textContent = ''
  if (games.length === 0) return

  const element = (tag, properties = {}, children = []) => {
    const node = Object.assign(document.createElement(tag), properties)
    node.append(...children)
    return node
  }

  const choice = element('select', { ariaLabel: 'Game' })
  for (const [i, { label }] of games.entries())
    choice.append(element('option', { value: String(i), textContent: label }))
  const button = (text, label) => element('button', { type: 'button', textContent: text, ariaLabel: label })
  const [first, back, forward, last] = [
    button('⏮', 'First position'),
    button('◀', 'Previous position'),
    button('▶', 'Next position'),
    button('⏭', 'Last position'),
  ]
  const where = element('span', { className: 'note' })
  const board = element('pre', { tabIndex: 0 })
  const words = element('div', { className: 'words' })
  host.append(
    element('div', { className: 'stepper' }, [
      element('div', { className: 'controls' }, [choice, first, back, forward, last, where]),
      board,
      words,
    ]),
  )

  let at = 0
  const frames = () => games[Number(choice.value)].frames

  const show = (to) => {
    const all = frames()
    at = Math.max(0, Math.min(all.length - 1, to))
    const { text, caption, reasoning, reply, illegal = [] } = all[at]
    where.textContent = `${at + 1} of ${all.length}`
    board.textContent = text
    words.textContent = ''
    words.append(element('p', { textContent: caption }))
    for (const { reply: wrong, reason } of illegal)
      words.append(element('p', { className: 'illegal', textContent: `Illegal: ${reason}. The reply was: ${wrong}` }))
    if (reasoning) words.append(element('p', { textContent: reasoning }))
    if (reply && reply !== reasoning)
      words.append(
        element('details', {}, [element('summary', { textContent: 'Reply' }), element('p', { textContent: reply })]),
      )
    back.disabled = first.disabled = at === 0
    forward.disabled = last.disabled = at === all.length - 1
  }

  choice.addEventListener('change', () => show(0))
  first.addEventListener('click', () => show(0))
  back.addEventListener('click', () => show(at - 1))
  forward.addEventListener('click', () => show(at + 1))
  last.addEventListener('click', () => show(Number.POSITIVE_INFINITY))
  host.addEventListener('keydown', ({ key, target }) => {
    if (target === choice) return
    if (key === 'ArrowLeft') show(at - 1)
    if (key === 'ArrowRight') show(at + 1)
  })
  show(0)
})()
