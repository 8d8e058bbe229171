//! The examples and exit statuses that `mpquic-lab --help` and the help of each command print.

pub(crate) const LAB: &str = "\
Examples:
  mpquic-lab run experiments/quick.toml
      run a first experiment; it writes results and a report to target/lab/quick
  mpquic-lab run --network '50Mbit 20ms 0% | 2Mbit 100ms 1.5%' --workload file:2MB --scheduler ecf
      run one network that the command line describes
  mpquic-lab compare ecf minrtt target/lab/quick
      compare two schedulers, seed by seed
  mpquic-lab table --markdown target/lab/quick > results.md
      print results as Markdown
  mpquic-lab arena experiments/arena/small.toml
      compare all schedulers with the best in hindsight, on many networks
  mpquic-lab help run
      show the options and examples of a command

Exit status:
  0  success
  1  a run failed, or a file could not be read or written
  2  the command line or the experiment file is wrong";

pub(crate) const RUN: &str = "\
Examples:
  mpquic-lab run experiments/quick.toml
      print tables and verdicts; write results and a report to target/lab/quick
  mpquic-lab run experiments/peekaboo/fig02_dynamicity.toml --seeds 10 --only 'low.*/ecf$|low.*/minrtt$'
      run a part of an experiment; a later run without --only keeps these results and adds the rest
  mpquic-lab run experiments/quick.toml --json | jq .median
      print one JSON object per combination instead of tables
  mpquic-lab run --network '50Mbit 20ms 0% | 2Mbit 100ms 1.5%' --workload file:2MB --scheduler ecf
      run one network as the library starts there; each path is RATE DELAY [LOSS] [jitter=8%] [queue=100]
  mpquic-lab run --network '50Mbit 20ms | 2Mbit 100ms' --workload file:2MB --scheduler ecf --start confirmed --congestion olia
      the same with the start of the papers, which is that of experiment files, too

Exit status:
  0  success
  1  a run failed, or a file could not be read or written
  2  the command line or the experiment file is wrong";

pub(crate) const MERGE: &str = "\
Examples:
  mpquic-lab run experiments/quick.toml --shard 2/4 --out /shared/quick-2
      run the second of four parts; the others run on other machines with the same build
  mpquic-lab merge /shared/quick-* --out target/lab/quick
      write what one machine would have written, byte for byte

Exit status:
  0  success
  1  a run failed, a file could not be read or written, or the shards are not one whole: one is missing, there twice
     or incomplete, or of another build or experiment
  2  the command line is wrong";

pub(crate) const LOOK: &str = "\
Examples:
  mpquic-lab look /tmp/qlogs/89ab01cd23ef4567_server.sqlog
      write 89ab01cd23ef4567_server.html beside it, and print a table of the paths
  mpquic-lab look client.sqlog server.sqlog --out both.html
      draw both sides of a connection on one page
  mpquic-lab run --network '50Mbit 20ms 0% | 2Mbit 100ms 1.5%' --workload file:2MB --scheduler ecf --qlog /tmp/qlogs
      run one network, and keep the qlog of both sides

Exit status:
  0  success
  1  a file could not be read or written
  2  a file is not qlog";

pub(crate) const LIST: &str = "\
Examples:
  mpquic-lab list
      all files below the folder experiments, with their numbers of networks and runs
  mpquic-lab list experiments/peekaboo
      those of one paper

Exit status:
  0  success
  1  the folder could not be read
  2  a file is wrong; the others are listed";

pub(crate) const CHECK_FIGURES: &str = "\
A page's section names its command between backticks; of its tables of medians, the first number of each cell is compared, digit
by digit. A draw runs only the cells that it needs, with all their seeds; it leaves out sections that say that they were not made
again since some day.

Examples:
  mpquic-lab check-figures --by $(git rev-parse HEAD)
      ten figures, drawn by the commit
  mpquic-lab check-figures --all docs/results/tables/csc579.md
      all figures of a page

Exit status:
  0  all of them hold
  1  a figure moved, or a page could not be read
  2  no page has a figure to check";

pub(crate) const NAMES: &str = "\
Example:
  mpquic-lab names
      what an experiment file can name in `schedulers`, `congestion` and `metrics`

Exit status:
  0  success";

pub(crate) const COMPARE: &str = "\
Examples:
  mpquic-lab compare ecf minrtt target/lab/quick
      compare two schedulers of one result, seed by seed
  mpquic-lab compare target/lab/quick/results.previous.jsonl target/lab/quick
      compare two results of one experiment, to see the effect of a code change
  mpquic-lab compare ecf minrtt target/lab/quick --metric oqs_mean
      compare by another metric

Exit status:
  0  success, whether or not there is a difference
  1  a file could not be read
  2  a scheduler is unknown, or the results have no scenario and metric in common";

pub(crate) const TABLE: &str = "\
Examples:
  mpquic-lab table target/lab/quick
      print the tables and verdicts that `run` printed
  mpquic-lab table --markdown target/lab/gaps/fig02_settings target/lab/gaps/fig03_subflows > gaps.md
      print one Markdown section per result: what was run, verdicts, tables

Exit status:
  0  success
  1  a file could not be read
  2  the command line is wrong";

pub(crate) const ARENA: &str = "\
Examples:
  mpquic-lab arena experiments/arena/small.toml
      run the small arena, print its tables, and write them to target/lab/arena/small, as a page (arena.html), as JSON
      (arena.json) and as Markdown (arena.md); an interrupted arena goes on where it was
  mpquic-lab arena experiments/arena/small.toml --schedulers minrtt,ecf,peekaboo
      run a part of the schedulers: the best in hindsight is then the best of these
  mpquic-lab arena target/lab/arena/small target/lab/arena/mine
      print the tables of these results together; of runs that several have, the last ones count
  mpquic-lab arena experiments/arena/full.toml --json | jq '.within[0].estimate'
      print one JSON object for the arena and one per scheduler, and nothing else

Exit status:
  0  success
  1  a run failed, or a file could not be read or written
  2  the command line or the experiment file is wrong, or the results have fewer than two schedulers";

pub(crate) const NEW_SCHEDULER: &str = "\
Examples:
  mpquic-lab new-scheduler mine
      write the crate `mine`: a documented scheduler with tests, the lab with it, and an arena; it builds against the
      checkout of mpquic around this folder, or the one that this program was built from
  mpquic-lab new-scheduler mine --checkout ~/mpquic
      the same against another checkout
  cd mine && cargo run --release -- arena arena.toml
      put it on the leaderboard: target/lab/arena/arena.html
  cd mine && cargo run --release -- run --network '50Mbit 20ms | 2Mbit 100ms 1.5%' --workload file:2MB --scheduler mine,ecf
      run it on one network; the crate's program has all commands of mpquic-lab

Exit status:
  0  success
  1  a file could not be written
  2  the name cannot be one, the folder exists, or there is no checkout to build against";

pub(crate) const TIME: &str = "\
Examples:
  mpquic-lab run experiments/quick.toml --time-lost && mpquic-lab time target/lab/quick
      print what each download's time was spent on: handshake, opening of paths, start-up, losses, ..
  mpquic-lab run --network '2Mbit 100ms | 50Mbit 20ms' --workload file:2MB --scheduler ecf --time-lost
      the same for one network
  mpquic-lab time --json target/lab/start | jq .parts.opening
      print one JSON object per network, workload, congestion control and scheduler

Exit status:
  0  success
  1  a file could not be read
  2  the command line is wrong, or the runs did not record where time went";

pub(crate) const ADAPT: &str = "\
Examples:
  mpquic-lab run experiments/ours/adaptation.toml && mpquic-lab adapt target/lab/ours/adaptation
      print how long each scheduler took after the last change of each network
  mpquic-lab adapt target/lab/ours/adaptation --window 5s --json | jq .back
      the same over longer windows, one JSON object per row

Exit status:
  0  success
  1  a file could not be read
  2  the command line is wrong, or the results have no network that changes";

pub(crate) const CURVES: &str = "\
Examples:
  mpquic-lab curves target/lab/dqn/online --out curve.svg
      print the mean time of each ten chunks, with its interval over seeds, and draw it
  mpquic-lab curves target/lab/peekaboo/fig09_drift --series completion --bin 20
      the same of downloads, twenty at a time

Exit status:
  0  success
  1  a file could not be read or written
  2  the command line is wrong, or the runs have no such values";

pub(crate) const SHELL: &str = "\
Examples:
  python3 -m http.server 8000 & mpquic-lab shell --network '20Mbit 40ms' -- sh -c 'curl -O http://$LAB_OUTSIDE:8000/FILE'
      download over one link of 20 Mbit/s, 40 ms in each direction
  mpquic-lab shell --network '20Mbit 10ms | 8Mbit 40ms 0.5%' --json -- mpquic-cp get HOST:4433 FILE
      the same over two links with a program that uses both, and one JSON object of what each carried
  mpquic-lab shell experiments/mobile/two_paths.toml --only '^walk' --seed 7
      a shell behind the links that a model draws for this seed

The program has one interface per link: link0, link1, .. What listens outside on all addresses is at $LAB_OUTSIDE by all of
them; $LAB_ADDRESSES has the program's own addresses, with commas between. What has an address of a link takes this link.
Programs that ask for MPTCP get a subflow per link. There is no way to other hosts, and no name service. Flows of others that
a file has (`cross_traffic`) are TCP of the kernel.

Exit status:
  that of the program, 128 and the signal that ended it, or
  1  the links cannot be made: not root, `ip` is missing, no TUN devices
  2  the command line or the file is wrong, there is no such program, or this is not Linux";

pub(crate) const TRACE: &str = "\
Examples:
  mpquic-lab trace show lte-car --seed 7 --svg car.svg
      print and draw what the model draws for this seed
  mpquic-lab trace convert recording.csv car.trace --rate DL_bitrate --unit kbit
      convert a recording with a rate in kbit/s each second, as those of UCC; names are those of the first line
  mpquic-lab trace convert report_car_0001.log car.trace --bytes 5 --millis 6
      convert lines whose columns 5 and 6 have bytes and milliseconds, as those of Ghent and Oslo
  mpquic-lab trace show car.trace
      print the same of a Mahimahi file, which an experiment names with `trace = \"car.trace\"`
  mpquic-lab trace draw leo-satellite leo.trace --length 600s
      write the rates of a model as a Mahimahi file, for other tools

Exit status:
  0  success
  1  a file could not be read or written, or is no Mahimahi file
  2  the command line or the recording is wrong";

pub(crate) const REPORT: &str = "\
Examples:
  mpquic-lab report target/lab/quick
      write target/lab/quick/report.html again
  mpquic-lab report target/lab/quick --out quick.html
      write the report to another file

Exit status:
  0  success
  1  a file could not be read or written
  2  the command line is wrong";
