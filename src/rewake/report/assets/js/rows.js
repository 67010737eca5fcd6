// Which rows stand in the list: those of a branch, from its beginning.

/** The stretches of the branch that ends with `leaf`, each with the row before which it is left. */
function pathTo(segments, leaf) {
  const path = new Map();
  let cut = Infinity;
  for (let segment = leaf; segment >= 0 && !path.has(segment); [segment, cut] = segments[segment]) {
    path.set(segment, cut);
  }
  return path;
}

/** The rows of a story on a branch, in order. */
export function rowsOf(story, segments, leaf) {
  const path = pathTo(segments, leaf);
  const rows = [];
  for (let row = story.base; row < story.count; row++) {
    const cut = path.get(story.at("seg", row));
    if (cut !== undefined && row < cut) rows.push(row);
  }
  return rows;
}

/**
 * The branches that a reader can choose: stretches with words of their own that don't just go on in
 * another one, and the current one. A branch hangs under the one that it left.
 */
export function branchesOf(segments, current) {
  const goesOn = (number, end) =>
    segments.some(([parent, cut, rows]) => parent === number && cut >= end && rows > 0);
  return segments
    .map(([parent, cut, rows, label, time, inherited, end], number) => {
      return { number, parent, cut, rows, label, time, inherited, end };
    })
    .filter(({ number, rows, inherited, end }) => {
      return number === current || (rows > 0 && !inherited && !goesOn(number, end));
    });
}
